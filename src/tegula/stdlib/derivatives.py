"""Adjoints of functions that are computed from polynomials and bit patterns.

`_f_adjoint` takes the arguments of f, the result of f and the result's adjoint, and returns the increment of each
argument's adjoint. A function f without an `_f_adjoint` is differentiated through its body."""

from __future__ import annotations

from math import log, pi, sqrt

from tegula.stdlib.registry import func, tg
from tegula.types import float32, float64

LN_2, LN_10 = log(2), log(10)
ROOT_PI = sqrt(pi)


@func
def _zero_if_adjoint_is_zero(g, product):
    """`product`, the product of the adjoint g and a derivative; 0 where g is 0, even if the derivative is infinite or
    NaN."""
    return tg.where(g == 0.0, g, product)


@func
def _cbrt_adjoint(x, y, g):
    return tg._zero_if_adjoint_is_zero(g, g / (3.0 * y * y))


@func
def _hypot_adjoint(x, y, r, g):
    is_nonzero = r > 0.0
    divisor = tg.where(is_nonzero, r, r + 1.0)
    adjoint_x, adjoint_y = g * (x / divisor), g * (y / divisor)
    return tg._zero_if_adjoint_is_zero(
        g, tg.where(is_nonzero, adjoint_x, g * 0.0)
    ), tg._zero_if_adjoint_is_zero(g, tg.where(is_nonzero, adjoint_y, g * 0.0))


@func
def _length_adjoint(x, r, g):
    """The length has no derivative at 0; the gradient there is 0."""
    size = tg.where(r > 0.0, r, g * 0.0 + 1.0)
    return tg.where((r > 0.0) & (g != 0.0), x / size * g, type(x)())


@func
def _mod_adjoint(x, y, r, g):
    return g, tg._zero_if_adjoint_is_zero(g, -g * tg.rint((x - r) / y))


@func
def _exp_adjoint(x, y, g):
    return tg.where(tg._never_above(x, 88.0), g * y, tg._zero_if_adjoint_is_zero(g, g * y))


@func
def _exp2_adjoint(x, y, g):
    return tg.where(tg._never_above(x, 127.0), g * y * LN_2, tg._zero_if_adjoint_is_zero(g, g * y * LN_2))


@func
def _exp10_adjoint(x, y, g):
    return tg.where(tg._never_above(x, 38.0), g * y * LN_10, tg._zero_if_adjoint_is_zero(g, g * y * LN_10))


@func
def _expm1_adjoint(x, y, g):
    return tg._zero_if_adjoint_is_zero(g, g * tg.exp(x))


@func
def _sinh_adjoint(x, y, g):
    return tg._zero_if_adjoint_is_zero(g, g * tg.cosh(x))


@func
def _cosh_adjoint(x, y, g):
    return tg._zero_if_adjoint_is_zero(g, g * tg.sinh(x))


@func
def _tanh_adjoint(x, y, g):
    """The derivative 1 - y y cancels where y is near 1, so 1 / cosh(x)**2 is computed from h = exp(-|x|). g is
    multiplied by h first, because h * h may underflow where g * h * h does not."""
    h = tg.exp(-tg.abs(x))
    denominator = h * h + 1.0
    return tg._zero_if_adjoint_is_zero(g, g * h * (4.0 * h / (denominator * denominator)))


@func
def _log_adjoint(x, y, g):
    return tg._zero_if_adjoint_is_zero(g, g / x)


@func
def _log2_adjoint(x, y, g):
    return tg._zero_if_adjoint_is_zero(g, g / x * (1.0 / LN_2))


@func
def _log10_adjoint(x, y, g):
    return tg._zero_if_adjoint_is_zero(g, g * (1.0 / LN_10) / x)


@func
def _log1p_adjoint(x, y, g):
    return tg._zero_if_adjoint_is_zero(g, g / (1.0 + x))


@func
def _pow_slopes(x: float32, y: float32, g: float32):
    """The products of g and the derivatives of x**y by x and, for positive x, by y. The computation is in float64,
    because the derivatives may be in the range of float32 when the power is not."""
    wide_x, wide_y, wide_g = tg.float64(x), tg.float64(y), tg.float64(g)
    by_base = wide_g * wide_y * tg._pow_beyond(wide_x, wide_y - 1.0)
    by_exponent = wide_g * tg.float64(tg.log(tg.abs(x))) * tg._pow_beyond(wide_x, wide_y)
    return tg.float32(by_base), tg.float32(by_exponent)


@func
def _pow_slopes(x: float64, y: float64, g: float64):
    return tg._times_power_of(g * y, x, y - 1.0), tg._times_power_of(g * tg.log(tg.abs(x)), x, y)


@func
def _pow_adjoint(x, y, z, g):
    """The adjoint of x**y. Both x**0 and, around a positive y, 0**y are constant."""
    by_base, by_exponent = tg._pow_slopes(x, y, g)
    zero = g * 0.0
    by_base, by_exponent = tg.where(y == 0.0, zero, by_base), tg.where(x > 0.0, by_exponent, zero)
    return tg._zero_if_adjoint_is_zero(g, by_base), tg._zero_if_adjoint_is_zero(g, by_exponent)


@func
def _sin_adjoint(x, y, g):
    return tg._zero_if_adjoint_is_zero(g, g * tg.cos(x))


@func
def _cos_adjoint(x, y, g):
    return tg._zero_if_adjoint_is_zero(g, -g * tg.sin(x))


@func
def _tan_adjoint(x, y, g):
    return tg._zero_if_adjoint_is_zero(g, g * (1.0 + y * y))


@func
def _asin_adjoint(x, y, g):
    return tg._zero_if_adjoint_is_zero(g, g / tg.sqrt((1.0 - x) * (1.0 + x)))


@func
def _acos_adjoint(x, y, g):
    return tg._zero_if_adjoint_is_zero(g, -g / tg.sqrt((1.0 - x) * (1.0 + x)))


@func
def _atan_adjoint(x, y, g):
    """For |x| > 1, where 1 + x x may overflow, g is divided by x and then by x + 1 / x."""
    is_large = tg.abs(x) > 1.0
    divisor = tg.where(is_large, x, x * 0.0 + 1.0)
    quotient_divisor = tg.where(is_large, x + 1.0 / divisor, 1.0 + x * x)
    return tg._zero_if_adjoint_is_zero(g, g / divisor / quotient_divisor)


@func
def _atan2_adjoint(y, x, r, g):
    """The squares of x and y may overflow or underflow, so both are divided by max(|x|, |y|) first. The angle has no
    derivative at the origin; the gradient there is 0."""
    max_magnitude = tg.max(tg.abs(x), tg.abs(y))
    is_nonzero = max_magnitude > 0.0
    divisor = tg.where(is_nonzero, max_magnitude, max_magnitude + 1.0)
    u, v = x / divisor, y / divisor
    square = tg.where(is_nonzero, u * u + v * v, max_magnitude + 1.0)
    return tg._zero_if_adjoint_is_zero(g, g * (u / square) / divisor), tg._zero_if_adjoint_is_zero(
        g, -g * (v / square) / divisor
    )


@func
def _erf_adjoint(x, y, g):
    return tg._zero_if_adjoint_is_zero(g, tg._times_bell(g, x))


@func
def _erfc_adjoint(x, y, g):
    return tg._zero_if_adjoint_is_zero(g, -tg._times_bell(g, x))


@func
def _times_bell(g, x):
    """g * 2 / sqrt(pi) * exp(-x x), corrected for the rounding error of x x. The result is multiplied by exp(-x x / 2)
    twice, because exp(-x x) alone may underflow."""
    square = x * x
    rounding_error = tg.fma(x, x, -square)
    half = tg.exp(-0.5 * square)
    product = g * (2.0 / ROOT_PI) * half * half
    return tg.where(half > 0.0, product - product * rounding_error, g * 0.0)


@func
def _erfinv_adjoint(x, y, g):
    return tg._zero_if_adjoint_is_zero(g, g * (ROOT_PI / 2.0) * tg.exp(y * y))


@func
def _erfcinv_adjoint(x, y, g):
    return tg._zero_if_adjoint_is_zero(g, -g * (ROOT_PI / 2.0) * tg.exp(y * y))
