"""Roots, remainders, rounding, signs, and conversions between degrees and radians."""

from __future__ import annotations

from math import inf, nan

from tegula.stdlib.coefficients import DEGREES_32, DEGREES_64, RADIANS_32, RADIANS_64
from tegula.stdlib.registry import func, tg
from tegula.types import (
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)

CBRT_BITS_32 = 709958130
"""Two thirds of the exponent's bias, minus a constant that minimises the error of the first guess."""
CBRT_BITS_64 = 715094163 << 32


@func
def rsqrt(x: float32):
    """The reciprocal of the square root, 1 / sqrt(x); inf at 0, NaN below.

    The root and the quotient are both rounded. The error is at most 2 units in the last place in float32, 2 in float64;
    16-bit results are rounded once more from float32.

    Gradient:
        -adjoint / 2 * x**-1.5.
    """
    return 1.0 / tg.sqrt(x)


@func
def rsqrt(x: float64):  # noqa: F811
    """The reciprocal of the square root of a float64."""
    return 1.0 / tg.sqrt(x)


@func
def cbrt(x: float32):
    """The cube root of x, of either sign.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Gradient:
        adjoint / (3 * cbrt(x)**2); infinite at 0.
    Source:
        Halley's method.
    """
    a = tg.abs(x)
    is_tiny, is_huge = a < 2.0**-100, a > 2.0**100
    scaled = tg.where(is_tiny, a * 2.0**72, tg.where(is_huge, a * 2.0**-72, a))
    guess_bits = tg.bitcast(scaled, tg.int32) // 3 + CBRT_BITS_32
    t = tg.bitcast(guess_bits, tg.float32)
    t = tg._cbrt_step(t, scaled)
    square = t * t
    cube = square * t
    rounding_error = tg.fma(tg.fma(t, t, -square), t, tg.fma(square, t, -cube))
    t = tg.fma(t, ((scaled - cube) - rounding_error) / cube * (1.0 / 3.0), t)
    t = tg.where(is_tiny, t * 2.0**-24, tg.where(is_huge, t * 2.0**24, t))
    return tg.where((a == 0.0) | ~(a < inf), x, tg.copysign(t, x))


@func
def cbrt(x: float64):  # noqa: F811
    """The cube root of a float64."""
    a = tg.abs(x)
    is_tiny, is_huge = a < 2.0**-900, a > 2.0**900
    scaled = tg.where(is_tiny, a * 2.0**216, tg.where(is_huge, a * 2.0**-216, a))
    guess_bits = tg.bitcast(scaled, tg.int64) // 3 + CBRT_BITS_64
    t = tg.bitcast(guess_bits, tg.float64)
    t = tg._cbrt_step(tg._cbrt_step(t, scaled), scaled)
    square = t * t
    cube = square * t
    rounding_error = tg.fma(tg.fma(t, t, -square), t, tg.fma(square, t, -cube))
    t = tg.fma(t, ((scaled - cube) - rounding_error) / cube * (1.0 / 3.0), t)
    t = tg.where(is_tiny, t * 2.0**-72, tg.where(is_huge, t * 2.0**72, t))
    return tg.where((a == 0.0) | ~(a < inf), x, tg.copysign(t, x))


@func
def _cbrt_step(t: float32, a: float32):
    """A step of Halley's method towards the cube root of a; triples the number of correct digits of t."""
    cube = t * t * t
    return t * (tg.fma(0.5, a, 0.25 * cube) / tg.fma(0.5, cube, 0.25 * a))


@func
def _cbrt_step(t: float64, a: float64):
    """A step of Halley's method towards the cube root of a; triples the number of correct digits of t."""
    cube = t * t * t
    return t * (tg.fma(0.5, a, 0.25 * cube) / tg.fma(0.5, cube, 0.25 * a))


@func
def length(a):
    """The length of a vector of floats: sqrt(dot(a, a)).

    Squares of components may overflow or underflow; tg.hypot of two scalars avoids squares.

    Parameters:
        a: a vector (N,) of floats, or a tile of such vectors.
    Returns:
        a scalar of the dtype of `a`; a tile of scalars of a tile.
    Raises:
        type-mismatch: `a` is not a vector of floats, or tile of such vectors.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint * a / length(a); 0 at length 0.
    """
    return tg._length(a)


@func
def hypot(x: float32, y: float32):
    """The length of the hypotenuse, sqrt(x**2 + y**2), without overflow of the squares; inf if either operand is
    infinite.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Returns:
        a value of the type of the operands.
    Gradient:
        adjoint * x / hypot(x, y) for `x`, adjoint * y / hypot(x, y) for `y`; 0 at the origin.
    """
    a, b = tg.float64(x), tg.float64(y)
    root = tg.float32(tg.sqrt(tg.fma(a, a, b * b)))
    return tg.where(tg.isinf(x) | tg.isinf(y), tg.float32(inf), root)


@func
def hypot(x: float64, y: float64):  # noqa: F811
    """The length of the hypotenuse of float64 operands, which are scaled by a power of two against overflow."""
    a, b = tg.abs(x), tg.abs(y)
    large, small = tg.max(a, b), tg.min(a, b)
    is_huge, is_tiny = large > 2.0**500, large < 2.0**-400
    scale = tg.where(is_huge, tg.float64(2.0**-600), tg.where(is_tiny, tg.float64(2.0**600), tg.float64(1.0)))
    scale_back = tg.where(
        is_huge, tg.float64(2.0**600), tg.where(is_tiny, tg.float64(2.0**-600), tg.float64(1.0))
    )
    p, q = large * scale, small * scale
    root = tg.sqrt(tg.fma(p, p, q * q)) * scale_back
    root = tg.where(tg.isnan(x) | tg.isnan(y), tg.float64(nan), root)
    return tg.where(tg.isinf(x) | tg.isinf(y), tg.float64(inf), root)


@func
def _exponent(x: float32):
    """The exponent of a positive finite number."""
    is_subnormal = x < 2.0**-126
    bits = tg.bitcast(tg.where(is_subnormal, x * 2.0**24, x), tg.int32) >> 23
    return bits - tg.where(is_subnormal, tg.int32(24), tg.int32(0))


@func
def _exponent(x: float64):
    """The exponent of a positive finite number."""
    is_subnormal = x < 2.0**-1022
    bits = tg.bitcast(tg.where(is_subnormal, x * 2.0**54, x), tg.int64) >> 52
    return bits - tg.where(is_subnormal, tg.int64(54), tg.int64(0))


@func
def mod(x: float32, y: float32):
    """The remainder of floats, x - y * trunc(x / y), exactly, with the sign of x.

    NaN where x is infinite or y is 0.

    Returns:
        a value of the type of the operands.
    Raises:
        mixed-scalar-types: the operands differ in dtype.
    Gradient:
        the adjoint for `x`; -adjoint * trunc(x / y) for `y`.
    Source:
        C's fmod.
    """
    a, b = tg.abs(x), tg.abs(y)
    is_valid = (a < inf) & (b > 0.0)
    r = tg.where(is_valid, a, tg.float32(0.0))
    while r >= b and r > 0.0:
        # The largest step b * 2**n for which the quotient r / step is exact; each iteration removes 22 binary digits.
        n = tg.max(tg._exponent(r) - tg._exponent(b) - 22, tg.int32(0))
        half = n >> 1
        half_power = tg.bitcast((half + 127) << 23, tg.float32)
        step = b * half_power * tg.bitcast((n - half + 127) << 23, tg.float32)
        r = tg.fma(-tg.trunc(r / step), step, r)
        r = tg.where(r < 0.0, r + step, r)
    return tg.where(is_valid, tg.copysign(r, x), tg.float32(nan))


@func
def mod(x: float64, y: float64):  # noqa: F811
    """The remainder of float64 operands, exactly, with the sign of x; NaN if x is infinite or y is 0."""
    a, b = tg.abs(x), tg.abs(y)
    is_valid = (a < inf) & (b > 0.0)
    r = tg.where(is_valid, a, tg.float64(0.0))
    while r >= b and r > 0.0:
        # The largest step b * 2**n for which the quotient r / step is exact; each iteration removes 50 binary digits. n
        # is at most 2046, because 2**n is computed as the product of two powers, of at most 2**1023 each. For quotients
        # beyond 2**2046 an iteration removes 51 digits.
        n = tg.min(tg.max(tg._exponent(r) - tg._exponent(b) - 50, tg.int64(0)), tg.int64(2046))
        half = n >> 1
        half_power = tg.bitcast((half + 1023) << 52, tg.float64)
        step = b * half_power * tg.bitcast((n - half + 1023) << 52, tg.float64)
        r = tg.fma(-tg.trunc(r / step), step, r)
        r = tg.where(r < 0.0, r + step, r)
    return tg.where(is_valid, tg.copysign(r, x), tg.float64(nan))


@func
def round(x: float32):
    """The nearest integral number, halves away from 0; tg.rint takes halves to even.

    Returns:
        a value of the type of `x`, exact.
    Gradient:
        0 everywhere.
    """
    integral = tg.trunc(x)
    up = tg.where(tg.abs(x - integral) >= 0.5, tg.float32(1.0), tg.float32(0.0))
    return tg.copysign(tg.abs(integral) + up, x)


@func
def round(x: float64):  # noqa: F811
    """The integral number nearest to a float64, halves away from 0."""
    integral = tg.trunc(x)
    up = tg.where(tg.abs(x - integral) >= 0.5, tg.float64(1.0), tg.float64(0.0))
    return tg.copysign(tg.abs(integral) + up, x)


@func
def sign(x: float32):
    """The sign of x: -1 below 0, else 1, also for both zeros; NaN for NaN.

    Gradient:
        0 everywhere.
    """
    return tg.where(tg.isnan(x), x, tg.where(x < 0.0, tg.float32(-1.0), tg.float32(1.0)))


@func
def sign(x: float64):  # noqa: F811
    """The sign of a float64: -1 below 0, else 1, also for both zeros; NaN for NaN."""
    return tg.where(tg.isnan(x), x, tg.where(x < 0.0, tg.float64(-1.0), tg.float64(1.0)))


@func
def sign(x: int8):  # noqa: F811
    """The sign of an int8: -1 below 0, else 1."""
    return tg.where(x < 0, tg.int8(-1), tg.int8(1))


@func
def sign(x: int16):  # noqa: F811
    """The sign of an int16: -1 below 0, else 1."""
    return tg.where(x < 0, tg.int16(-1), tg.int16(1))


@func
def sign(x: int32):  # noqa: F811
    """The sign of an int32: -1 below 0, else 1."""
    return tg.where(x < 0, tg.int32(-1), tg.int32(1))


@func
def sign(x: int64):  # noqa: F811
    """The sign of an int64: -1 below 0, else 1."""
    return tg.where(x < 0, tg.int64(-1), tg.int64(1))


@func
def sign(x: uint8):  # noqa: F811
    """The sign of a uint8, which is 1."""
    return tg.uint8(1)


@func
def sign(x: uint16):  # noqa: F811
    """The sign of a uint16, which is 1."""
    return tg.uint16(1)


@func
def sign(x: uint32):  # noqa: F811
    """The sign of a uint32, which is 1."""
    return tg.uint32(1)


@func
def sign(x: uint64):  # noqa: F811
    """The sign of a uint64, which is 1."""
    return tg.uint64(1)


@func
def degrees(x: float32):
    """Converts an angle from radians to degrees.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, or a tile of such elements, in radians.
    Returns:
        a value of the type of `x`, in degrees.
    Gradient:
        adjoint * 180 / pi.
    """
    return tg.fma(x, DEGREES_32[0], x * DEGREES_32[1])


@func
def degrees(x: float64):  # noqa: F811
    """Converts a float64 angle from radians to degrees."""
    return tg.fma(x, DEGREES_64[0], x * DEGREES_64[1])


@func
def radians(x: float32):
    """Converts an angle from degrees to radians.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, or a tile of such elements, in degrees.
    Returns:
        a value of the type of `x`, in radians.
    Gradient:
        adjoint * pi / 180.
    """
    return tg.fma(x, RADIANS_32[0], x * RADIANS_32[1])


@func
def radians(x: float64):  # noqa: F811
    """Converts a float64 angle from degrees to radians."""
    return tg.fma(x, RADIANS_64[0], x * RADIANS_64[1])
