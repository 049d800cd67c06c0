"""The inverse of the complementary error function."""

from __future__ import annotations

from math import inf, nan

from tegula.stdlib.coefficients import ERFCINV_64
from tegula.stdlib.registry import func, meaning, tg
from tegula.types import float32, float64

RANGES = ((0.0, 2.0), (0.0, 0.01), (0.999, 1.001), (0.0, 1e-12))


@func
def erfcinv(x: float32):
    """The inverse of the complementary error function: the y with erfc(y) = x; NaN outside 0 to 2.

    Accurate where x is near 0, where tg.erfinv(1 - x) is not. The error is at most 1 unit in the last place in float32,
    2 in float64; 16-bit results are rounded once more from float32.

    Gradient:
        -adjoint * sqrt(pi) / 2 * exp(y**2), with y the result.
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """
    return tg.float32(tg.erfcinv(tg.float64(x)))


@func
def erfcinv(x: float64):  # noqa: F811
    """The inverse of the complementary error function of a float64; NaN outside 0 to 2."""
    small = tg.min(x, 2.0 - x)
    complement = 1.0 - small
    rounding_error = (1.0 - complement) - small
    gap = tg.fma(-small, small, small + small)
    w, w_low = tg._log_of_gap(gap)
    small_root_value = tg._erfinv_from(complement, w, w_low)
    small_root_value = small_root_value + rounding_error * small_root_value / tg.where(
        complement == 0.0, tg.float64(1.0), complement
    )
    root = tg.sqrt(w)
    root_low = 0.5 * (tg.fma(-root, root, w) + w_low) / root
    u = tg.log(root) - 2.5
    u2 = u * u
    u4 = u2 * u2
    u14 = u4 * u4 * u4 * u2
    tail = tg.fma(u14, tg._poly2(u, *ERFCINV_64[14:]), tg._poly13(u, *ERFCINV_64[:14]))
    large_root_value = root + (root_low + tail)
    y = tg.copysign(tg.where(root < 6.0, small_root_value, large_root_value), 1.0 - x)
    y = tg.where((x > 0.0) & (x < 2.0), y, tg.float64(nan))
    return tg.where((x == 0.0) | (x == 2.0), (1.0 - x) * inf, y)


@meaning("erfcinv", RANGES, smooth=((0.1, 1.9),), bounds=(1.0, 2.0))
def exact(x):
    """The y with erfc(y) = x of a multiprecision number, by Newton's method on log(erfc)."""
    mp = x.context
    if not 0 < x < 2:
        return mp.inf * (1 - x) if x in (0, 2) else mp.nan
    if x > 1:
        return -exact(2 - x)
    w = -mp.log(x)
    y = mp.sqrt(w - mp.log(mp.pi * w) / 2) if w > 2 else (1 - x) * mp.sqrt(mp.pi) / 2
    for _ in range(60):
        tail, slope = mp.erfc(y), -2 / mp.sqrt(mp.pi) * mp.exp(-y * y)
        step = mp.log(tail / x) * tail / slope if w > 1 else (tail - x) / slope
        y -= step
        if abs(step) < abs(y) * mp.mpf(2) ** (-mp.prec // 2 - 4):
            break
    return y
