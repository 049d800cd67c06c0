"""The error function, its complement and its inverse."""

from __future__ import annotations

from math import inf

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
)
from tegula.stdlib.registry import func, tg
from tegula.types import float32, float64

SPLIT_32 = 0.92
SPLIT_64 = 0.92


@func
def _erfc_polynomial(x: float64):
    """The polynomial of `_erfc_tail`."""
    x2 = x * x
    x4 = x2 * x2
    x12 = x4 * x4 * x4
    return tg.fma(x12, tg._poly10(x, *ERFC_64[12:]), tg._poly11(x, *ERFC_64[:12]))


@func
def _erfc_tail(a: float32):
    """erfc(a) for a >= 0.5: exp(-a a) times a polynomial in (a - 2) / (a + 2), over 1 + 2 a."""
    x = tg.min(a, 10.2)
    square = x * x
    p, k = tg._exp_parts(-square, -tg.fma(x, x, -square))
    q = (x - 2.0) / (x + 2.0)
    return tg._scaled(p * (tg._poly10(q, *ERFC_32) / tg.fma(2.0, x, 1.0)), k)


@func
def _erfc_tail(a: float64):
    x = tg.min(a, 27.3)
    square = x * x
    p, k = tg._exp_parts(-square, -tg.fma(x, x, -square))
    q = (x - 4.0) / (x + 4.0)
    return tg._scaled(p * (tg._erfc_polynomial(q) / tg.fma(2.0, x, 1.0)), k)


@func
def erf(x: float32):
    """The error function."""
    a = tg.abs(x)
    near = tg.fma(x, tg._poly6(x * x, *ERF_32), x)
    p, k = tg._exp_parts(tg._poly8(tg.min(a, 4.0), *ERF_TAIL_32), 0.0)
    far = tg.copysign(1.0 - tg._scaled(p, k), x)
    return tg.where(tg.isnan(x), x, tg.where(a < SPLIT_32, near, far))


@func
def erf(x: float64):  # noqa: F811
    """The error function."""
    a = tg.abs(x)
    near = tg.fma(x, tg._poly12(x * x, *ERF_64), x)
    far = tg.copysign(1.0 - tg._erfc_tail(tg.max(a, 0.5)), x)
    return tg.where(tg.isnan(x), x, tg.where(a < SPLIT_64, near, far))


@func
def erfc(x: float32):
    """1 - erf(x), to 20 ulp where that is small."""
    a = tg.abs(x)
    near = 0.5 - tg.fma(x, tg._poly6(x * x, *ERF_32), x - 0.5)
    tail = tg._erfc_tail(tg.max(a, 0.5))
    far = tg.where(x < 0.0, 2.0 - tail, tail)
    return tg.where(tg.isnan(x), x, tg.where(a < 0.5, near, far))


@func
def erfc(x: float64):  # noqa: F811
    """1 - erf(x), to 20 ulp where that is small."""
    a = tg.abs(x)
    near = 0.5 - tg.fma(x, tg._poly12(x * x, *ERF_64), x - 0.5)
    tail = tg._erfc_tail(tg.max(a, 0.5))
    far = tg.where(x < 0.0, 2.0 - tail, tail)
    return tg.where(tg.isnan(x), x, tg.where(a < 0.5, near, far))


@func
def erfinv(x: float32):
    """The y with erf(y) = x; NaN outside -1 .. 1."""
    w = -tg.log(tg.fma(-x, x, 1.0))
    near = tg._poly11(w - 2.5, *ERFINV_NEAR_32)
    far = tg._poly10(tg.sqrt(w) - 3.0, *ERFINV_FAR_32)
    return tg.where(tg.abs(x) == 1.0, x * inf, x * tg.where(w < 5.0, near, far))


@func
def _erfinv_slope(w: float64):
    """erfinv(x) / x from w = -log(1 - x x), which is at most 36.1."""
    u = w - 3.125
    u2 = u * u
    u4 = u2 * u2
    u14 = u4 * u4 * u4 * u2
    near = tg.fma(u14, tg._poly12(u, *ERFINV_NEAR_64[14:]), tg._poly13(u, *ERFINV_NEAR_64[:14]))
    root = tg.sqrt(w)
    v = root - 3.25
    v2 = v * v
    v4 = v2 * v2
    v11 = v4 * v4 * v2 * v
    mid = tg.fma(v11, tg._poly10(v, *ERFINV_MID_64[11:]), tg._poly10(v, *ERFINV_MID_64[:11]))
    t = root - 5.0
    t2 = t * t
    t4 = t2 * t2
    t10 = t4 * t4 * t2
    far = tg.fma(t10, tg._poly9(t, *ERFINV_FAR_64[10:]), tg._poly9(t, *ERFINV_FAR_64[:10]))
    return tg.where(w < 6.25, near, tg.where(root < 4.0, mid, far))


@func
def erfinv(x: float64):  # noqa: F811
    """The y with erf(y) = x; NaN outside -1 .. 1."""
    w = -tg.log(tg.fma(-x, x, 1.0))
    return tg.where(tg.abs(x) == 1.0, x * inf, x * tg._erfinv_slope(w))
