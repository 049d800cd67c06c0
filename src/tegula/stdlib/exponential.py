"""Exponentials and hyperbolic functions: e**x = p * 2**k with p a polynomial in the remainder of x by ln 2."""

from __future__ import annotations

from math import log2

from tegula.stdlib.coefficients import (
    EXP2_32,
    EXP2_64,
    EXP10_32,
    EXP10_64,
    EXP_32,
    EXP_64,
    HALF_EXPM1_32,
    LN2_32,
    LN2_64,
    LOG10_2_32,
    LOG10_2_64,
    SHORT_EXP_32,
    SINH_32,
    SINH_64,
    TANH_64,
)
from tegula.stdlib.registry import func, tg
from tegula.types import float32, float64, int32, int64

ROUND_32 = 1.5 * 2**23
"""The constant that is added to a float32: the integer nearest to the float32 is then in the low bits of the sum."""
ROUND_64 = 1.5 * 2**52
ROUND_BITS_32 = 0x4B400000
ROUND_BITS_64 = 0x4338000000000000
SHIFTED_32 = ROUND_32 + 2 * 127
"""The sum of ROUND_32 and twice the exponent bias, so that the integer includes twice the bias."""
SPARE = 25
"""For arguments without overflow the polynomial is scaled by 2**-SPARE. The factor 2**(k + SPARE) is then a normal
number for every possible k, so that one multiplication gives the result with one rounding, also for subnormal
results."""
SMALL = 2.0**-SPARE
BIASED_32 = ROUND_32 + 127
"""The sum of ROUND_32 and the exponent bias, so that the integer includes the bias."""
LOW_SHIFTED_32 = ROUND_32 + 127 + SPARE
"""The sum of ROUND_32, the exponent bias and SPARE, so that the integer includes the bias and SPARE."""
SMALL_EXP_32, SMALL_EXP2_32, SMALL_EXP10_32 = (
    tuple(c * SMALL for c in known) for known in (SHORT_EXP_32, EXP2_32, EXP10_32)
)
EXPONENT_32 = 0xFF << 23
"""The bits of a number's exponent."""
INVERSE_LN2 = 1.4426950408889634
LOG2_10 = log2(10)


@func
def _clamped(x: float32, low: float32, high: float32):
    """The number x clamped to low .. high; NaN for NaN."""
    bounded = tg.where(x < low, low, x)
    return tg.where(bounded > high, high, bounded)


@func
def _scaled(p: float32, k: int32):
    """The number p * 2**k for p within 2**-40 .. 2**40 and -151 <= k <= 129, rounded once. Half of k is added to the
    exponent of p, so that p stays a normal number. Only the low nine bits of k are used."""
    half = k >> 1
    first = tg.bitcast(tg.bitcast(p, tg.int32) + (half << 23), tg.float32)
    return first * tg.bitcast((k - half + 127) << 23, tg.float32)


@func
def _scaled(p: float64, k: int64):
    """The number p * 2**k for -1083 <= k <= 1025, rounded once."""
    half = k >> 1
    first = (half + 1023) << 52
    rest = (k - half + 1023) << 52
    return p * tg.bitcast(first, tg.float64) * tg.bitcast(rest, tg.float64)


@func
def _exp_reduced(x: float32):
    """The remainder r, its rounding error, and k with x = r + k ln 2, for x within -104 .. 89."""
    t = tg.fma(x, INVERSE_LN2, ROUND_32)
    n = t - ROUND_32
    k = tg.bitcast(t, tg.int32) - ROUND_BITS_32
    exact = tg.fma(-n, LN2_32[0], x)
    r = tg.fma(-n, LN2_32[1], exact)
    return r, tg.fma(-n, LN2_32[1], exact - r), k


@func
def _exp_reduced(x: float64):
    t = tg.fma(x, INVERSE_LN2, ROUND_64)
    n = t - ROUND_64
    k = tg.bitcast(t, tg.int64) - ROUND_BITS_64
    exact = tg.fma(-n, LN2_64[0], x)
    r = tg.fma(-n, LN2_64[1], exact)
    return r, tg.fma(-n, LN2_64[1], exact - r), k


@func
def _exp_parts(x: float32):
    """The numbers p and k with e**x = p * 2**k, for x within -104 .. 90. Only the low nine bits of k are valid; the
    upper bits are the bits of ROUND_32."""
    t = tg.fma(x, INVERSE_LN2, ROUND_32)
    return tg._exp_tail(x, t - ROUND_32), tg.bitcast(t, tg.int32)


@func
def _exp_tail(x: float32, n: float32):
    """The quotient e**x / 2**n for the integer n nearest to x / ln 2."""
    r = tg.fma(-n, LN2_32[1], tg.fma(-n, LN2_32[0], x))
    return tg.fma(r, tg.fma(r, tg._poly4(r, *EXP_32), 1.0), 1.0)


@func
def _times_power(p: float32, shifted: int32):
    """The number p * 2**k, rounded once; NaN if p is NaN. The low nine bits of `shifted` hold k + 254, within 2 ..
    509."""
    half = (shifted << 22) & EXPONENT_32
    first = p * tg.bitcast(half, tg.float32)
    return tg.fma(first, tg.bitcast((shifted << 23) - half, tg.float32), 0.0)


@func
def _exp_parts(x: float64):
    r, low, k = tg._exp_reduced(x)
    return 1.0 + (r + tg.fma(r * r, tg._poly10(r, *EXP_64), low)), k


@func
def _exp_of_sum(x: float32, x_low: float32):
    """The number p, its rounding error, and k with e**(x + x_low) = p * 2**k. The magnitude of `x_low` is much smaller
    than 1."""
    start, start_low, k = tg._exp_reduced(x)
    r = start + x_low
    low = ((start - r) + x_low) + start_low
    rest = tg.fma(r * r, tg._poly4(r, *EXP_32), low)
    tail = r + rest
    p = 1.0 + tail
    return p, ((1.0 - p) + tail) + ((r - tail) + rest), k


@func
def _exp_of_sum(x: float64, x_low: float64):
    start, start_low, k = tg._exp_reduced(x)
    r = start + x_low
    low = ((start - r) + x_low) + start_low
    rest = tg.fma(r * r, tg._poly10(r, *EXP_64), low)
    tail = r + rest
    p = 1.0 + tail
    return p, ((1.0 - p) + tail) + ((r - tail) + rest), k


@func
def _times_low_power(p: float32, shifted: int32):
    """The number p * 2**(k + SPARE), rounded once; NaN if p is NaN. The low nine bits of `shifted` hold k + 127 +
    SPARE, within 1 .. 254. The fma prevents a contraction of the multiplication with a later addition."""
    return tg.fma(p, tg.bitcast(shifted << 23, tg.float32), 0.0)


@func
def exp(x: float32):
    """The exponential function, e**x.

    Results beyond the range are inf or 0. The error is at most 2 units in the last place in float32, 1 in
    float64; 16-bit results are rounded once more from float32.

    Gradient:
        adjoint * exp(x).
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """
    return tg.where(tg._never_above(x, 71.0), tg._low_exp(x), tg._any_exp(x))


@func
def _any_exp(x: float32):
    clamped = tg._clamped(x, -104.0, 89.0)
    t = tg.fma(clamped, INVERSE_LN2, SHIFTED_32)
    n = t - SHIFTED_32
    r = tg.fma(-n, LN2_32[1], tg.fma(-n, LN2_32[0], clamped))
    return tg._times_power(tg.fma(r, tg._poly4(r, *SHORT_EXP_32), 1.0), tg.bitcast(t, tg.int32))


@func
def _low_exp(x: float32):
    """The power e**x for x <= 71, with fewer instructions than `_any_exp`."""
    clamped = tg.where(x < -104.0, -104.0, x)
    t = tg.fma(clamped, INVERSE_LN2, LOW_SHIFTED_32)
    n = t - LOW_SHIFTED_32
    r = tg.fma(-n, LN2_32[1], tg.fma(-n, LN2_32[0], clamped))
    p = tg.fma(r, tg._poly4(r, *SMALL_EXP_32), SMALL)
    return tg._times_low_power(p, tg.bitcast(t, tg.int32))


@func
def exp(x: float64):  # noqa: F811
    """The exponential function of a float64."""
    p, k = tg._exp_parts(tg.min(tg.max(x, -746.0), 710.0))
    return tg.where(tg.isnan(x), x, tg._scaled(p, k))


@func
def exp2(x: float32):
    """The power 2**x.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Gradient:
        adjoint * exp2(x) * ln 2.
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """
    return tg.where(tg._never_above(x, 102.0), tg._low_exp2(x), tg._any_exp2(x))


@func
def _low_exp2(x: float32):
    clamped = tg.where(x < -150.0, -150.0, x)
    t = clamped + LOW_SHIFTED_32
    r = clamped - (t - LOW_SHIFTED_32)
    return tg._times_low_power(tg.fma(r, tg._poly4(r, *SMALL_EXP2_32), SMALL), tg.bitcast(t, tg.int32))


@func
def _any_exp2(x: float32):
    clamped = tg._clamped(x, -151.0, 129.0)
    t = clamped + SHIFTED_32
    r = clamped - (t - SHIFTED_32)
    return tg._times_power(tg.fma(r, tg._poly4(r, *EXP2_32), 1.0), tg.bitcast(t, tg.int32))


@func
def exp2(x: float64):  # noqa: F811
    """The power 2**x of a float64."""
    clamped = tg.min(tg.max(x, -1076.0), 1025.0)
    t = clamped + ROUND_64
    r = clamped - (t - ROUND_64)
    k = tg.bitcast(t, tg.int64) - ROUND_BITS_64
    return tg.where(tg.isnan(x), x, tg._scaled(tg.fma(r, tg._poly11(r, *EXP2_64), 1.0), k))


@func
def exp10(x: float32):
    """The power 10**x.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Gradient:
        adjoint * exp10(x) * ln 10.
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """
    return tg.where(tg._never_above(x, 30.0), tg._low_exp10(x), tg._any_exp10(x))


@func
def _low_exp10(x: float32):
    clamped = tg.where(x < -45.3, -45.3, x)
    t = tg.fma(clamped, LOG2_10, LOW_SHIFTED_32)
    n = t - LOW_SHIFTED_32
    r = tg.fma(-n, LOG10_2_32[1], tg.fma(-n, LOG10_2_32[0], clamped))
    return tg._times_low_power(tg.fma(r, tg._poly5(r, *SMALL_EXP10_32), SMALL), tg.bitcast(t, tg.int32))


@func
def _any_exp10(x: float32):
    clamped = tg._clamped(x, -45.3, 38.7)
    t = tg.fma(clamped, LOG2_10, SHIFTED_32)
    n = t - SHIFTED_32
    r = tg.fma(-n, LOG10_2_32[1], tg.fma(-n, LOG10_2_32[0], clamped))
    return tg._times_power(tg.fma(r, tg._poly5(r, *EXP10_32), 1.0), tg.bitcast(t, tg.int32))


@func
def exp10(x: float64):  # noqa: F811
    """The power 10**x of a float64."""
    clamped = tg.min(tg.max(x, -323.9), 308.5)
    t = tg.fma(clamped, LOG2_10, ROUND_64)
    n = t - ROUND_64
    k = tg.bitcast(t, tg.int64) - ROUND_BITS_64
    r = tg.fma(-n, LOG10_2_64[1], tg.fma(-n, LOG10_2_64[0], clamped))
    return tg.where(tg.isnan(x), x, tg._scaled(tg.fma(r, tg._poly11(r, *EXP10_64), 1.0), k))


@func
def expm1(x: float32):
    """The exponential function less 1, exp(x) - 1, accurate near 0.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Gradient:
        adjoint * (expm1(x) + 1).
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """
    r, low, k = tg._exp_reduced(tg.min(tg.max(x, -20.0), 89.0))
    p = r + tg.fma(r * r, tg._poly4(r, *EXP_32), low)
    half = tg.bitcast(
        (k + 126) << 23, tg.float32
    )  # This is 2**(k - 1), because 2**k may overflow when the result does not.
    result = 2.0 * tg.fma(p, half, half - 0.5)
    return tg.where((tg.abs(x) < 2.0**-60) | tg.isnan(x), x, result)


@func
def expm1(x: float64):  # noqa: F811
    """The exponential function of a float64 less 1, accurate near 0."""
    r, low, k = tg._exp_reduced(tg.min(tg.max(x, -40.0), 710.0))
    p = r + tg.fma(r * r, tg._poly10(r, *EXP_64), low)
    half = tg.bitcast((k + 1022) << 52, tg.float64)
    result = 2.0 * tg.fma(p, half, half - 0.5)
    return tg.where((tg.abs(x) < 2.0**-60) | tg.isnan(x), x, result)


@func
def _half_exp(x: float32):
    """The value exp(x) / 2 for x >= 0, which is also finite if exp(x) overflows and its half does not."""
    p, k = tg._exp_parts(tg.min(x, 90.0))
    return tg._scaled(p, k - 1)


@func
def _half_exp(x: float64):
    p, k = tg._exp_parts(tg.min(x, 711.0))
    return tg._scaled(p, k - 1)


@func
def sinh(x: float32):
    """The hyperbolic sine of x.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Gradient:
        adjoint * cosh(x).
    """
    a = tg.abs(x)
    z = x * x
    half = tg._half_exp(a)
    far = tg.copysign(half - 0.25 / half, x)
    near = tg.fma(x * z, tg._poly3(z, *SINH_32), x)
    return tg.where(tg.isnan(x), x, tg.where(a < 1.0, near, far))


@func
def sinh(x: float64):  # noqa: F811
    """The hyperbolic sine of a float64."""
    a = tg.abs(x)
    z = x * x
    half = tg._half_exp(a)
    far = tg.copysign(half - 0.25 / half, x)
    near = tg.fma(x * z, tg._poly7(z, *SINH_64), x)
    return tg.where(tg.isnan(x), x, tg.where(a < 1.0, near, far))


@func
def cosh(x: float32):
    """The hyperbolic cosine of x.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Gradient:
        adjoint * sinh(x).
    """
    half = tg._half_exp(tg.abs(x))
    return tg.where(tg.isnan(x), x, half + 0.25 / half)


@func
def cosh(x: float64):  # noqa: F811
    """The hyperbolic cosine of a float64."""
    half = tg._half_exp(tg.abs(x))
    return tg.where(tg.isnan(x), x, half + 0.25 / half)


@func
def tanh(x: float32):
    """The hyperbolic tangent of x.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Gradient:
        adjoint / cosh(x)**2, accurate where tanh is near 1 too.
    Source:
        tanh(x) = u / (u + 1) for u = expm1(2 x) / 2; the quotient is refined once by its remainder.
    """
    a = tg.abs(x)
    near = tg.where(a > 9.02, 9.02, a)
    t = tg.fma(near, 2.0 * INVERSE_LN2, BIASED_32)
    n = t - BIASED_32
    r = tg.fma(-n, 0.5 * LN2_32[1], tg.fma(-n, 0.5 * LN2_32[0], near))
    p = tg.fma(r * r, tg._poly4(r, *HALF_EXPM1_32), r)
    power = tg.bitcast(tg.bitcast(t, tg.int32) << 23, tg.float32)
    u = tg.fma(p, power, tg.fma(power, 0.5, -0.5))
    inverse = tg._reciprocal(u + 1.0)
    quotient = tg.fma(
        u, inverse, 0.0
    )  # The fma prevents a contraction of the multiplication with the subtraction.
    remainder = tg.fma(-quotient, u, u - quotient)
    return tg.copysign(tg.fma(remainder, inverse, quotient), x)


@func
def tanh(x: float64):  # noqa: F811
    """The hyperbolic tangent of a float64."""
    a = tg.abs(x)
    z = x * x
    near = tg.fma(x * z, tg._poly11(z, *TANH_64), x)
    far = tg.copysign(1.0 - 1.0 / (tg._half_exp(tg.min(a + a, 80.0)) + 0.5), x)
    return tg.where(tg.isnan(x), x, tg.where(a < 0.625, tg.copysign(near, x), far))
