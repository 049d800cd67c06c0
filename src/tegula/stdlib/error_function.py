"""The error function, its complement and its inverse."""

from __future__ import annotations

from math import inf, nan

from tegula.stdlib.coefficients import (
    ERF_32,
    ERF_64,
    ERF_TAIL_32,
    ERFC_32,
    ERFC_64,
    ERFINV_FAR_32,
    ERFINV_FAR_64,
    ERFINV_MID_64,
    ERFINV_NEAR_32,
    ERFINV_NEAR_64,
    LN2_64,
)
from tegula.stdlib.registry import func, tg
from tegula.types import float32, float64

SPLIT_32 = 0.92
SPLIT_64 = 0.92


@func
def _erfc_slope(x: float64):
    """The polynomial of `_erfc_tail` without its constant term, divided by x."""
    x2 = x * x
    x4 = x2 * x2
    x11 = x4 * x4 * x2 * x
    return tg.fma(x11, tg._poly10(x, *ERFC_64[12:]), tg._poly10(x, *ERFC_64[1:12]))


@func
def _scaled_quotient(a: float32, a_low: float32, x: float32, p: float32, p_low: float32):
    """The quotient (a + a_low) (p + p_low) / (1 + 2 x), with an error slightly above one rounding."""
    b = tg.fma(2.0, x, 1.0)
    inverse = 1.0 / b
    rounding_error = tg.fma(-tg.fma(2.0, x, 1.0 - b), inverse, tg.fma(-b, inverse, 1.0))
    g = a * inverse
    g_low = tg.fma(a_low, inverse, tg.fma(g, rounding_error, tg.fma(a, inverse, -g)))
    y = g * p
    return y + tg.fma(g, p_low, tg.fma(g_low, p, tg.fma(g, p, -y)))


@func
def _scaled_quotient(a: float64, a_low: float64, x: float64, p: float64, p_low: float64):
    b = tg.fma(2.0, x, 1.0)
    inverse = 1.0 / b
    rounding_error = tg.fma(-tg.fma(2.0, x, 1.0 - b), inverse, tg.fma(-b, inverse, 1.0))
    g = a * inverse
    g_low = tg.fma(a_low, inverse, tg.fma(g, rounding_error, tg.fma(a, inverse, -g)))
    y = g * p
    return y + tg.fma(g, p_low, tg.fma(g_low, p, tg.fma(g, p, -y)))


@func
def _erfc_tail(a: float32):
    """The value erfc(a) for a >= 0.5: exp(-a a) times a polynomial in (a - 2) / (a + 2), divided by 1 + 2 a."""
    x = tg.min(a, 10.2)
    square = x * x
    p, p_low, k = tg._exp_of_sum(-square, -tg.fma(x, x, -square))
    q = (x - 2.0) / (x + 2.0)
    slope = tg._poly9(q, *ERFC_32[1:])
    value = tg.fma(q, slope, ERFC_32[0])
    low = tg.fma(q, slope, ERFC_32[0] - value)
    return tg._scaled(tg._scaled_quotient(value, low, x, p, p_low), k)


@func
def _erfc_tail(a: float64):
    x = tg.min(a, 27.3)
    square = x * x
    p, p_low, k = tg._exp_of_sum(-square, -tg.fma(x, x, -square))
    q = (x - 4.0) / (x + 4.0)
    slope = tg._erfc_slope(q)
    value = tg.fma(q, slope, ERFC_64[0])
    low = tg.fma(q, slope, ERFC_64[0] - value)
    return tg._scaled(tg._scaled_quotient(value, low, x, p, p_low), k)


@func
def erf(x: float32):
    """The error function: 2 / sqrt(pi) times the integral of exp(-t**2) from 0 to x.

    The error is at most 1.5 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Gradient:
        adjoint * 2 / sqrt(pi) * exp(-x**2).
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """
    a = tg.abs(x)
    small_result = tg.fma(x, tg._poly6(x * x, *ERF_32), x)
    p, k = tg._exp_parts(tg._poly8(tg.min(a, 4.0), *ERF_TAIL_32))
    tail_result = tg.copysign(1.0 - tg._scaled(p, k), x)
    return tg.where(tg.isnan(x), x, tg.where(a < SPLIT_32, small_result, tail_result))


@func
def erf(x: float64):  # noqa: F811
    """The error function of a float64."""
    a = tg.abs(x)
    small_result = tg.fma(x, tg._poly12(x * x, *ERF_64), x)
    tail_result = tg.copysign(1.0 - tg._erfc_tail(tg.max(a, 0.5)), x)
    return tg.where(tg.isnan(x), x, tg.where(a < SPLIT_64, small_result, tail_result))


@func
def erfc(x: float32):
    """The complementary error function, 1 - erf(x), accurate where the result is small.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Gradient:
        -adjoint * 2 / sqrt(pi) * exp(-x**2).
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """
    a = tg.abs(x)
    small_result = 0.5 - tg.fma(x, tg._poly6(x * x, *ERF_32), x - 0.5)
    tail = tg._erfc_tail(tg.max(a, 0.5))
    tail_result = tg.where(x < 0.0, 2.0 - tail, tail)
    return tg.where(tg.isnan(x), x, tg.where(a < 0.5, small_result, tail_result))


@func
def erfc(x: float64):  # noqa: F811
    """The complementary error function of a float64, accurate where the result is small."""
    a = tg.abs(x)
    small_result = 0.5 - tg.fma(x, tg._poly12(x * x, *ERF_64), x - 0.5)
    tail = tg._erfc_tail(tg.max(a, 0.5))
    tail_result = tg.where(x < 0.0, 2.0 - tail, tail)
    return tg.where(tg.isnan(x), x, tg.where(a < 0.5, small_result, tail_result))


@func
def erfinv(x: float32):
    """The inverse of the error function: the y with erf(y) = x; NaN outside -1 to 1.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Gradient:
        adjoint * sqrt(pi) / 2 * exp(y**2), with y the result.
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """
    w = -tg.log(tg.fma(-x, x, 1.0))
    near = tg._poly11(w - 2.5, *ERFINV_NEAR_32)
    far = tg._poly10(tg.sqrt(w) - 3.0, *ERFINV_FAR_32)
    value = tg.where(w < 5.0, tg.fma(x, near, x), tg.fma(x, far, x + x))
    return tg.where(tg.abs(x) == 1.0, x * inf, tg.copysign(value, x))


@func
def _log_of_gap(gap: float64):
    """The value -log(gap) for 0 < gap <= 1 as a sum of two numbers. The second number is the rounding error of the
    first."""
    f, e = tg._log_split(gap)
    high, low = tg._log_terms(f)
    product = e * LN2_64[0]
    total = product + high
    low = ((product - total) + high) + tg.fma(e, LN2_64[1], low)
    log = total + low
    return -log, (log - total) - low


@func
def _erfinv_from(x: float64, w: float64, w_low: float64):
    """The value erfinv(x) from w + w_low = -log(1 - x x), which is at most 36.1: x times 1, 2 or 4, plus a correction.
    The correction accounts for the rounding errors of w and of its square root, because its derivatives by w and by the
    root are about 1 / 4 and 1."""
    u = w - 2.0
    u2 = u * u
    u4 = u2 * u2
    u14 = u4 * u4 * u4 * u2
    small = tg.fma(u14, tg._poly12(u, *ERFINV_NEAR_64[14:]), 0.25 * w_low)
    near = small + tg._poly13(u, *ERFINV_NEAR_64[:14])
    root = tg.sqrt(w)
    root_low = 0.5 * (tg.fma(-root, root, w) + w_low) / root
    v = root - 3.25
    v2 = v * v
    v4 = v2 * v2
    v11 = v4 * v4 * v2 * v
    small = tg.fma(v11, tg._poly10(v, *ERFINV_MID_64[11:]), root_low)
    mid = small + tg._poly10(v, *ERFINV_MID_64[:11])
    t = root - 5.0
    t2 = t * t
    t4 = t2 * t2
    t10 = t4 * t4 * t2
    small = tg.fma(t10, tg._poly9(t, *ERFINV_FAR_64[10:]), root_low)
    far = small + tg._poly9(t, *ERFINV_FAR_64[:10])
    far_value = tg.where(root < 4.0, tg.fma(x, mid, x + x), tg.fma(x, far, 4.0 * x))
    return tg.where(w < 6.25, tg.fma(x, near, x), far_value)


@func
def erfinv(x: float64):  # noqa: F811
    """The inverse of the error function of a float64; NaN outside -1 to 1."""
    gap = tg.fma(-x, x, 1.0)
    w, w_low = tg._log_of_gap(gap)
    value = tg.where(gap > 0.0, tg.copysign(tg._erfinv_from(x, w, w_low), x), tg.float64(nan))
    return tg.where(tg.abs(x) == 1.0, x * inf, value)
