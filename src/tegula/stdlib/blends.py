"""Steps, fractions and blends of two values."""

from __future__ import annotations

from tegula.ops.documented import Family
from tegula.stdlib.registry import NOT_A_VALUE, composite, tg

NUMBERS = Family(
    {},
    {
        **NOT_A_VALUE,
        "type-mismatch": "an argument is not a number, or is a vector or matrix instead of a scalar",
        "mixed-scalar-types": "the arguments differ in dtype, or are integers instead of floats",
        "shape-mismatch": "the shapes of tiles do not broadcast",
        "out-of-range": "a literal does not fit its dtype",
    },
)


@composite(NUMBERS)
def step(x):
    """The number 1 where x is below 0, and 0 elsewhere.

    Parameters:
        x: a scalar, or tile of scalars, of any dtype but bool.
    Returns:
        a value of the type of `x`.
    Gradient:
        0 everywhere.
    """
    return type(x)(x < type(x)(0))


@composite(NUMBERS)
def nonzero(x):
    """The number 0 where x is 0, and 1 elsewhere, also at NaN.

    Parameters:
        x: a scalar, or tile of scalars, of any dtype but bool.
    Returns:
        a value of the type of `x`.
    Gradient:
        0 everywhere.
    """
    return type(x)(x != type(x)(0))


@composite(NUMBERS)
def frac(x):
    """The fractional part of x, x - trunc(x), with the sign of x.

    Parameters:
        x: a scalar, vector, matrix or tile of floats.
    Returns:
        a value of the type of `x`.
    Gradient:
        the adjoint.
    """
    return x - tg.trunc(x)


@composite(NUMBERS)
def lerp(a, b, t):
    """The linear interpolation a * (1 - t) + b * t.

    Parameters:
        a, b: scalars, vectors or matrices of one type of floats, or tiles of them.
        t: a scalar of their dtype.
    Returns:
        a value of the type of `a`.
    Gradient:
        adjoint * (1 - t) for `a`, adjoint * t for `b`, the inner product of the adjoint and b - a for `t`.
    """
    return a * (1.0 - t) + b * t


@composite(NUMBERS)
def smoothstep(a, b, x):
    """The smooth step from 0 at a to 1 at b: t * t * (3 - 2 * t), with t = (x - a) / (b - a) clamped to 0 and 1.

    Parameters:
        a, b, x: scalars of one dtype of floats, or tiles of them.
    Returns:
        a scalar of that dtype, or a tile.
    Gradient:
        the derivative of the polynomial for x between a and b; 0 elsewhere.
    """
    t = tg.clamp((x - a) / (b - a), 0.0, 1.0)
    return t * t * (3.0 - 2.0 * t)
