"""Arcsine, arccosine and arctangents."""

from __future__ import annotations

from math import inf

from tegula.stdlib.coefficients import ASIN_32, ASIN_64, ATAN_32, ATAN_64, HALF_PI_32, HALF_PI_64
from tegula.stdlib.registry import func, tg
from tegula.types import bool_, float32, float64

ROOT2_LESS_1 = 0.41421356237309503


@func
def asin(x: float32):
    """The arcsine of x; NaN outside -1 to 1.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Returns:
        a value of the type of `x`, in radians from -pi / 2 to pi / 2.
    Gradient:
        adjoint / sqrt(1 - x**2).
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """
    a = tg.abs(x)
    is_large = a > 0.5
    z = tg.where(is_large, tg.fma(-0.5, a, 0.5), x * x)
    s = tg.where(is_large, tg.sqrt(z), a)
    p = tg._poly5(z, *ASIN_32)
    large_result = HALF_PI_32[0] - (s + s + tg.fma((s + s) * z, p, -HALF_PI_32[1]))
    return tg.copysign(tg.where(is_large, large_result, tg.fma(s * z, p, s)), x)


@func
def asin(x: float64):  # noqa: F811
    """The arcsine of a float64 in radians; NaN outside -1 to 1."""
    a = tg.abs(x)
    is_large = a > 0.5
    z = tg.where(is_large, tg.fma(-0.5, a, 0.5), x * x)
    s = tg.where(is_large, tg.sqrt(z), a)
    p = tg._poly12(z, *ASIN_64)
    large_result = HALF_PI_64[0] - (s + s + tg.fma((s + s) * z, p, -HALF_PI_64[1]))
    return tg.copysign(tg.where(is_large, large_result, tg.fma(s * z, p, s)), x)


@func
def acos(x: float32):
    """The arccosine of x; NaN outside -1 to 1.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Returns:
        a value of the type of `x`, in radians from 0 to pi.
    Gradient:
        -adjoint / sqrt(1 - x**2).
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """
    a = tg.abs(x)
    is_large = a > 0.5
    z = tg.where(is_large, tg.fma(-0.5, a, 0.5), x * x)
    s = tg.where(is_large, tg.sqrt(z), x)
    tail = tg.fma(s * z, tg._poly5(z, *ASIN_32), 0.0)
    twice = 2.0 * (s + tail)
    large_result = tg.where(x < 0.0, 2.0 * (HALF_PI_32[0] - ((s + tail) - HALF_PI_32[1])), twice)
    return tg.where(is_large, large_result, HALF_PI_32[0] - (s + (tail - HALF_PI_32[1])))


@func
def acos(x: float64):  # noqa: F811
    """The arccosine of a float64 in radians; NaN outside -1 to 1."""
    a = tg.abs(x)
    is_large = a > 0.5
    z = tg.where(is_large, tg.fma(-0.5, a, 0.5), x * x)
    s = tg.where(is_large, tg.sqrt(z), x)
    tail = tg.fma(s * z, tg._poly12(z, *ASIN_64), 0.0)
    twice = 2.0 * (s + tail)
    large_result = tg.where(x < 0.0, 2.0 * (HALF_PI_64[0] - ((s + tail) - HALF_PI_64[1])), twice)
    return tg.where(is_large, large_result, HALF_PI_64[0] - (s + (tail - HALF_PI_64[1])))


@func
def _atan_ratio(y: float32, x: float32):
    """The arctangent of y / x for 0 <= y <= x and x > 0. For y / x > sqrt(2) - 1 the polynomial gives the difference
    from pi / 4."""
    is_reduced = y > x * ROOT2_LESS_1
    t = tg.where(is_reduced, y - x, y) / tg.where(is_reduced, y + x, x)
    z = t * t
    tail = tg.fma(t * z, tg._poly4(z, *ATAN_32), tg.where(is_reduced, 0.5 * HALF_PI_32[1], tg.float32(0.0)))
    return tg.where(is_reduced, 0.5 * HALF_PI_32[0] + (t + tail), t + tail)


@func
def _atan_ratio(y: float64, x: float64):
    is_reduced = y > x * ROOT2_LESS_1
    t = tg.where(is_reduced, y - x, y) / tg.where(is_reduced, y + x, x)
    z = t * t
    tail = tg.fma(t * z, tg._poly11(z, *ATAN_64), tg.where(is_reduced, 0.5 * HALF_PI_64[1], tg.float64(0.0)))
    return tg.where(is_reduced, 0.5 * HALF_PI_64[0] + (t + tail), t + tail)


@func
def _atan_octants(small: float32, large: float32, is_steep: bool_, is_obtuse: bool_):
    """The arctangent of small / large, reflected at pi / 4 if `is_steep` and then at pi / 2 if `is_obtuse`."""
    a = tg._atan_ratio(small, large)
    a = tg.where(is_steep, HALF_PI_32[0] - (a - HALF_PI_32[1]), a)
    return tg.where(is_obtuse, 2.0 * HALF_PI_32[0] - (a - 2.0 * HALF_PI_32[1]), a)


@func
def _atan_octants(small: float64, large: float64, is_steep: bool_, is_obtuse: bool_):
    a = tg._atan_ratio(small, large)
    a = tg.where(is_steep, HALF_PI_64[0] - (a - HALF_PI_64[1]), a)
    return tg.where(is_obtuse, 2.0 * HALF_PI_64[0] - (a - 2.0 * HALF_PI_64[1]), a)


@func
def atan(x: float32):
    """The arctangent of x.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Returns:
        a value of the type of `x`, in radians from -pi / 2 to pi / 2.
    Gradient:
        adjoint / (1 + x**2).
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """
    a = tg.abs(x)
    is_steep = a > 1.0
    one = tg.float32(1.0)
    is_infinite = a == inf
    small = tg.where(is_infinite, tg.float32(0.0), tg.where(is_steep, one, a))
    value = tg._atan_octants(
        small, tg.where(is_steep & ~is_infinite, a, one), is_steep, tg.isnan(x) & is_steep
    )
    return tg.copysign(value, x)


@func
def atan(x: float64):  # noqa: F811
    """The arctangent of a float64 in radians."""
    a = tg.abs(x)
    is_steep = a > 1.0
    one = tg.float64(1.0)
    is_infinite = a == inf
    small = tg.where(is_infinite, tg.float64(0.0), tg.where(is_steep, one, a))
    value = tg._atan_octants(
        small, tg.where(is_steep & ~is_infinite, a, one), is_steep, tg.isnan(x) & is_steep
    )
    return tg.copysign(value, x)


@func
def atan2(y: float32, x: float32):
    """The angle of the point (x, y), from the positive x axis.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Returns:
        a value of the type of the operands, in radians from -pi to pi.
    Gradient:
        adjoint * x / r**2 for `y`, -adjoint * y / r**2 for `x`, with r = hypot(x, y); 0 at the origin.
    Source:
        special cases: ISO C, annex F.10.1.4.
    """
    a, b = tg.abs(y), tg.abs(x)
    is_steep = a > b
    large, small = tg.where(is_steep, a, b), tg.where(is_steep, b, a)
    scale = tg.where(
        large > 2.0**120, tg.float32(0.25), tg.float32(1.0)
    )  # The scale makes small + large finite.
    is_infinite = large == inf
    both_infinite = tg.where(small == inf, tg.float32(1.0), tg.float32(0.0))
    small = tg.where(is_infinite, both_infinite, small * scale)
    large = tg.where(is_infinite | (large == 0.0), tg.float32(1.0), large * scale)
    value = tg._atan_octants(small, large, is_steep, tg.bitcast(x, tg.int32) < 0)
    return tg.where(tg.isnan(x) | tg.isnan(y), x + y, tg.copysign(value, y))


@func
def atan2(y: float64, x: float64):  # noqa: F811
    """The angle of the point (x, y) of float64 coordinates, in radians from -pi to pi; the special cases are the same
    as in C."""
    a, b = tg.abs(y), tg.abs(x)
    is_steep = a > b
    large, small = tg.where(is_steep, a, b), tg.where(is_steep, b, a)
    scale = tg.where(
        large > 2.0**1000, tg.float64(0.25), tg.float64(1.0)
    )  # The scale makes small + large finite.
    is_infinite = large == inf
    both_infinite = tg.where(small == inf, tg.float64(1.0), tg.float64(0.0))
    small = tg.where(is_infinite, both_infinite, small * scale)
    large = tg.where(is_infinite | (large == 0.0), tg.float64(1.0), large * scale)
    value = tg._atan_octants(small, large, is_steep, tg.bitcast(x, tg.int64) < 0)
    return tg.where(tg.isnan(x) | tg.isnan(y), x + y, tg.copysign(value, y))
