"""The softsign, a sigmoid without an exponential."""

from __future__ import annotations

from tegula.stdlib.registry import func, meaning, tg

RANGES = ((-1.0, 1.0), (-20.0, 20.0), (-1e5, 1e5))


@func
def softsign(x):
    """The softsign x / (1 + |x|), from -1 to 1.

    Parameters:
        x: a scalar, vector, matrix or tile of floats.
    Returns:
        a value of the type of `x`.
    Raises:
        mixed-scalar-types: `x` holds integers.
        type-mismatch: `x` is not a scalar, vector, matrix or tile.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint / (1 + |x|)**2.
    """
    y = x / (1.0 + tg.abs(x))
    return tg.where(tg.isinf(x), tg.copysign(tg.min(tg.abs(x), 1.0), x), y)


@meaning("softsign", RANGES, smooth=((-3.0, 3.0),))
def exact(x):
    """The softsign of a multiprecision number."""
    return x / (1 + abs(x))
