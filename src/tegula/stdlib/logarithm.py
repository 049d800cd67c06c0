"""Logarithms and powers: x = (1 + f) * 2**e with 1 + f between the roots of 1/2 and 2."""

from __future__ import annotations

from math import inf, nan

from tegula.stdlib.coefficients import (
    ATANH2_64,
    ATANH_64,
    LN2_32,
    LN2_64,
    LN2_PAIR_64,
    LOG2E_32,
    LOG2E_64,
    LOG10_2_32,
    LOG10_2_64,
    LOG10E_32,
    LOG10E_64,
    LOG_32,
    POW_EXP_32,
    POW_LOG_32,
    TWO_THIRDS_64,
)
from tegula.stdlib.registry import func, tg
from tegula.types import float32, float64

ROOT_HALF_32 = 0x3F3504F3
"""The bits of sqrt(1/2): subtracting them from the bits of x leaves e in the exponent field."""
ROOT_HALF_64 = 0x3FE6A09E667F3BCD
FRACTION_32 = 2**23 - 1
FRACTION_64 = 2**52 - 1
ROUND_64 = 1.5 * 2**52
ROUND_BITS_64 = 0x4338000000000000


@func
def _log_split(x: float32):
    """The fraction f and the exponent e of a positive x = (1 + f) * 2**e, as floats."""
    is_subnormal = x < 2.0**-126
    bits = tg.bitcast(tg.where(is_subnormal, x * 2.0**23, x), tg.int32) - ROOT_HALF_32
    f = tg.bitcast((bits & FRACTION_32) + ROOT_HALF_32, tg.float32) - 1.0
    return f, tg.float32(bits >> 23) - tg.where(is_subnormal, tg.float32(23.0), tg.float32(0.0))


@func
def _log_split(x: float64):
    is_subnormal = x < 2.0**-1022
    bits = tg.bitcast(tg.where(is_subnormal, x * 2.0**52, x), tg.int64) - ROOT_HALF_64
    f = tg.bitcast((bits & FRACTION_64) + ROOT_HALF_64, tg.float64) - 1.0
    return f, tg.float64(tg.int32(bits >> 52)) - tg.where(is_subnormal, tg.float64(52.0), tg.float64(0.0))


@func
def _log_checked(x: float32, result: float32):
    """The `result` for positive finite x, else the special values of logarithms: -inf at 0, inf at inf, NaN below 0."""
    special_value = tg.where(x == 0.0, tg.float32(-inf), tg.float32(nan))
    return tg.where(x > 0.0, tg.where(x < inf, result, x), special_value)


@func
def _log_checked(x: float64, result: float64):
    special_value = tg.where(x == 0.0, tg.float64(-inf), tg.float64(nan))
    return tg.where(x > 0.0, tg.where(x < inf, result, x), special_value)


@func
def _log_joined(f: float32, e: float32):
    """The logarithm log(1 + f) + e ln 2."""
    z = f * f
    tail = tg.fma(z, tg.fma(f, tg._poly7(f, *LOG_32), -0.5), e * LN2_32[1])
    return tg.fma(e, LN2_32[0], f + tail)


@func
def _log_joined(f: float64, e: float64):
    s = f / (2.0 + f)
    z = s * s
    half = 0.5 * f * f
    tail = tg.fma(s, tg.fma(z, tg._poly6(z, *ATANH_64), half), e * LN2_64[1])
    return tg.fma(e, LN2_64[0], f - (half - tail))


@func
def _log_terms(f: float32):
    """The logarithm of 1 + f as an unevaluated sum of two numbers, the second small."""
    z = f * f
    half = 0.5 * z
    high = f - half
    error = tg.fma(f, f, -z)  # This is the rounding error of z.
    low_part = tg.fma(-0.5, error, (f - high) - half)
    return high, tg.fma(z * f, tg._poly7(f, *LOG_32), low_part)


@func
def _log_terms(f: float64):
    s = f / (2.0 + f)
    z = s * s
    half = 0.5 * f * f
    high = f - half
    return high, tg.fma(s, tg.fma(z, tg._poly6(z, *ATANH_64), half), (f - high) - half)


@func
def log(x: float32):
    """The natural logarithm of x; -inf at 0, NaN below.

    The error is at most 1.5 units in the last place in float32, 1 in float64; 16-bit results are rounded
    once more from float32.

    Gradient:
        adjoint / x.
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """
    f, e = tg._log_split(x)
    return tg._log_checked(x, tg._log_joined(f, e))


@func
def log(x: float64):  # noqa: F811
    """The natural logarithm of a float64."""
    f, e = tg._log_split(x)
    return tg._log_checked(x, tg._log_joined(f, e))


@func
def _log_in_base(f: float32, base: float32, base_low: float32, power: float32, low: float32):
    """The sum log(1 + f) * (base + base_low) + power + low, where `power` is 0 or larger than the product."""
    a, b = tg._log_terms(f)
    product = a * base
    low_sum = tg.fma(a, base_low, tg.fma(b, base, tg.fma(a, base, -product)))
    total = power + product
    return total + (((power - total) + product) + (low_sum + low))


@func
def _log_in_base(f: float64, base: float64, base_low: float64, power: float64, low: float64):
    a, b = tg._log_terms(f)
    product = a * base
    low_sum = tg.fma(a, base_low, tg.fma(b, base, tg.fma(a, base, -product)))
    total = power + product
    return total + (((power - total) + product) + (low_sum + low))


@func
def log2(x: float32):
    """The logarithm of x to base 2; -inf at 0, NaN below.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Gradient:
        adjoint / (x * ln 2).
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """
    f, e = tg._log_split(x)
    return tg._log_checked(x, tg._log_in_base(f, *LOG2E_32, e, 0.0))


@func
def log2(x: float64):  # noqa: F811
    """The logarithm of a float64 to base 2."""
    f, e = tg._log_split(x)
    return tg._log_checked(x, tg._log_in_base(f, *LOG2E_64, e, 0.0))


@func
def log10(x: float32):
    """The logarithm of x to base 10; -inf at 0, NaN below.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Gradient:
        adjoint / (x * ln 10).
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """
    f, e = tg._log_split(x)
    power = tg.fma(e, LOG10_2_32[0], 0.0)
    low = tg.fma(e, LOG10_2_32[1], 0.0)
    return tg._log_checked(x, tg._log_in_base(f, *LOG10E_32, power, low))


@func
def log10(x: float64):  # noqa: F811
    """The logarithm of a float64 to base 10."""
    f, e = tg._log_split(x)
    power = tg.fma(e, LOG10_2_64[0], 0.0)
    low = tg.fma(e, LOG10_2_64[1], 0.0)
    return tg._log_checked(x, tg._log_in_base(f, *LOG10E_64, power, low))


@func
def log1p(x: float32):
    """The logarithm log(1 + x), accurate near 0; -inf at -1, NaN below.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Gradient:
        adjoint / (1 + x).
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """
    u = 1.0 + x
    bits = tg.bitcast(u, tg.int32) - ROOT_HALF_32
    e = bits >> 23
    scale = tg.bitcast((127 - e) << 23, tg.float32)
    large_fraction = tg.bitcast((bits & FRACTION_32) + ROOT_HALF_32, tg.float32) - 1.0
    f = tg.where(x < 2.0**30, tg.fma(x, scale, scale - 1.0), large_fraction)
    return tg.where(x == 0.0, x, tg._log_checked(u, tg._log_joined(f, tg.float32(e))))


@func
def log1p(x: float64):  # noqa: F811
    """The logarithm of 1 + x for a float64, accurate near 0."""
    u = 1.0 + x
    bits = tg.bitcast(u, tg.int64) - ROOT_HALF_64
    e = bits >> 52
    scale = tg.bitcast((1023 - e) << 52, tg.float64)
    large_fraction = tg.bitcast((bits & FRACTION_64) + ROOT_HALF_64, tg.float64) - 1.0
    f = tg.where(x < 2.0**60, tg.fma(x, scale, scale - 1.0), large_fraction)
    return tg.where(x == 0.0, x, tg._log_checked(u, tg._log_joined(f, tg.float64(tg.int32(e)))))


@func
def _log_pair(x: float64):
    """The logarithm of a positive finite x as a sum of two numbers, with a relative error of about 2**-66."""
    f, e = tg._log_split(x)
    g = 2.0 + f
    s = f / g
    s_low = tg.fma(-s, f - (g - 2.0), tg.fma(-s, g, f)) / g
    z = s * s
    z_low = tg.fma(s + s, s_low, tg.fma(s, s, -z))
    q = z * tg._poly7(z, *ATANH2_64)
    t = TWO_THIRDS_64[0] + q
    t_low = ((TWO_THIRDS_64[0] - t) + q) + TWO_THIRDS_64[1]
    u = z * t
    u_low = tg.fma(z, t_low, tg.fma(z_low, t, tg.fma(z, t, -u)))
    w = s * u
    w_low = tg.fma(s, u_low, tg.fma(s_low, u, tg.fma(s, u, -w)))
    twice_s = s + s
    high = twice_s + w
    low = ((twice_s - high) + w) + tg.fma(s_low, 2.0, w_low)
    power = e * LN2_PAIR_64[0]
    total = power + high
    low_sum = ((power - total) + high) + tg.fma(e, LN2_PAIR_64[1], low)
    sum_high = total + low_sum
    return sum_high, (total - sum_high) + low_sum


@func
def _pow_checked(x: float64, y: float64, result: float64):
    """The power x**y, given `result` = |x|**y: the sign and the special cases of C's pow are applied."""
    a = tg.abs(x)
    is_integer = tg.trunc(y) == y
    half = 0.5 * y
    is_odd = is_integer & ~(tg.trunc(half) == half)
    limit = tg.where((a > 1.0) ^ (y > 0.0), tg.float64(0.0), tg.float64(inf))
    result = tg.where((a == 0.0) | (a == inf) | (tg.abs(y) == inf), limit, result)
    result = tg.where(a == 1.0, tg.float64(1.0), result)
    result = tg.where(is_odd & (tg.bitcast(x, tg.int64) < 0), -result, result)
    is_invalid = tg.isnan(x) | tg.isnan(y) | ((x < 0.0) & (a < inf) & ~is_integer)
    result = tg.where(is_invalid, tg.float64(nan), result)
    return tg.where((x == 1.0) | (y == 0.0), tg.float64(1.0), result)


@func
def _pow_parts(x: float64, y: float64):
    """The numbers p and k with x**y = p * 2**k, where k is clamped to slightly more than the range of results. In the
    special cases k is 0, and p is the result."""
    log_high, log_low = tg._log_pair(tg.abs(x))
    product = y * log_high
    clamped = tg.min(tg.max(product, -750.0), 712.0)
    low = tg.fma(y, log_low, tg.fma(y, log_high, -product))
    p, _, k = tg._exp_of_sum(clamped, tg.where(clamped == product, low, 0.0))
    a = tg.abs(x)
    is_special = (a == 0.0) | (a == 1.0) | (a == inf) | (y == 0.0) | (tg.abs(y) == inf)
    return tg._pow_checked(x, y, p), tg.where(is_special, tg.int64(0), k)


@func
def pow(x: float64, y: float64):
    """The power x**y.

    `x ** y` in kernels is this function for floats; integers have the operator with a constant exponent only.
    The error is at most 1.5 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Returns:
        a value of the type of the operands.
    Gradient:
        adjoint * y * x**(y - 1) for `x`; adjoint * x**y * log(x) for `y`, 0 where x <= 0. x**0 is constant.
    Source:
        special cases: ISO C, annex F.10.4.4.
    """
    p, k = tg._pow_parts(x, y)
    return tg._scaled(p, k)


@func
def _pow_beyond(x: float64, y: float64):
    """The power x**y with the precision of a float32 and a range of 2**-1000 to 2**1000."""
    bits = tg.bitcast(tg.abs(x), tg.int64) - ROOT_HALF_64
    f = tg.bitcast((bits & FRACTION_64) + ROOT_HALF_64, tg.float64) - 1.0
    s = f / (2.0 + f)
    z = s * s
    logarithm = tg.fma(s * z, tg._poly4(z, *POW_LOG_32), s + s)
    power = y * tg.fma(logarithm, LOG2E_64[0], tg.float64(tg.int32(bits >> 52)))
    clamped = tg.min(tg.max(power, -1000.0), 1000.0)
    rounded = clamped + ROUND_64
    r = clamped - (rounded - ROUND_64)
    scale = tg.bitcast((tg.bitcast(rounded, tg.int64) - ROUND_BITS_64 + 1023) << 52, tg.float64)
    result = tg.fma(r, tg._poly6(r, *POW_EXP_32), 1.0) * scale
    return tg._pow_checked(x, y, result)


@func
def pow(x: float32, y: float32):  # noqa: F811
    """The power x**y of float32 operands, computed in float64, which is not slower than pairs of float32. The special
    cases are the same as in C."""
    return tg.float32(tg._pow_beyond(tg.float64(x), tg.float64(y)))


@func
def _times_power_of(g: float64, x: float64, y: float64):
    """The product g * x**y, also where x**y alone would be out of range."""
    p, k = tg._pow_parts(x, y)
    return tg._scaled(g * p, k)
