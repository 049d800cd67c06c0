"""Sine, cosine and tangent for arguments of any size: range reduction by pi / 2 to a sum of two floats, then
polynomials."""

from __future__ import annotations

from math import inf, nan

from tegula.stdlib.coefficients import (
    COS_32,
    COS_64,
    HALF_PI_32,
    HALF_PI_64,
    SIN_32,
    SIN_64,
    TAN_32,
    TAN_64,
    TWO_OVER_PI,
    TWO_OVER_PI_WORDS_32,
    TWO_OVER_PI_WORDS_64,
)
from tegula.stdlib.registry import func, tg
from tegula.types import bool_, float32, float64, int32, int64, uint32, uint64

ROUND_32 = 1.5 * 2**23
ROUND_64 = 1.5 * 2**52
MAX_SMALL_32 = 1.0e5
"""The largest |x| for which the reduction with pi / 2 in three parts has an accurate remainder."""
MAX_SMALL_64 = 1.0e6
LOW_HALF = 2**32 - 1


@func
def _reduce_small(x: float32):
    """The remainder of x by pi / 2 as a sum of two floats, and the quotient modulo 4, for |x| <= NEAR_32."""
    t = tg.fma(x, TWO_OVER_PI[0], ROUND_32)
    n = t - ROUND_32
    exact = tg.fma(-n, HALF_PI_32[0], x)
    product = n * HALF_PI_32[1]
    product_low = tg.fma(n, HALF_PI_32[1], -product)
    r = exact - product
    residual = r - exact
    rounding_error = (exact - (r - residual)) - (product + residual)
    low = tg.fma(-n, HALF_PI_32[2], rounding_error - product_low)
    high = r + low
    return high, (r - high) + low, tg.bitcast(t, tg.int32) & 3


@func
def _reduce_small(x: float64):
    t = tg.fma(x, TWO_OVER_PI[0], ROUND_64)
    n = t - ROUND_64
    exact = tg.fma(-n, HALF_PI_64[0], x)
    product = n * HALF_PI_64[1]
    product_low = tg.fma(n, HALF_PI_64[1], -product)
    r = exact - product
    residual = r - exact
    rounding_error = (exact - (r - residual)) - (product + residual)
    low = tg.fma(-n, HALF_PI_64[2], rounding_error - product_low)
    high = r + low
    return high, (r - high) + low, tg.bitcast(t, tg.int64) & 3


@func
def _window(upper: uint32, lower: uint32, shift: uint32):
    """A word of 32 bits of the 64 bits of two words, from bit `shift` on."""
    return (upper << shift) | ((lower >> 1) >> (31 - shift))


@func
def _window(upper: uint64, lower: uint64, shift: uint64):
    return (upper << shift) | ((lower >> 1) >> (63 - shift))


@func
def _two_over_pi(offset: uint32):
    """The 96 bits of 2 / pi from bit `offset` (0 .. 159) on, as three words."""
    w = TWO_OVER_PI_WORDS_32
    four, two, one = (offset & 128) != 0, (offset & 64) != 0, (offset & 32) != 0
    a0 = tg.where(four, tg.uint32(w[4]), tg.uint32(w[0]))
    a1 = tg.where(four, tg.uint32(w[5]), tg.uint32(w[1]))
    a2 = tg.where(four, tg.uint32(w[6]), tg.uint32(w[2]))
    a3 = tg.where(four, tg.uint32(w[7]), tg.uint32(w[3]))
    b0 = tg.where(two, a2, a0)
    b1 = tg.where(two, a3, a1)
    b2 = tg.where(two, tg.uint32(w[4]), a2)
    b3 = tg.where(two, tg.uint32(w[5]), a3)
    b4 = tg.where(two, tg.uint32(w[6]), tg.uint32(w[4]))
    c0 = tg.where(one, b1, b0)
    c1 = tg.where(one, b2, b1)
    c2 = tg.where(one, b3, b2)
    c3 = tg.where(one, b4, b3)
    shift = offset & 31
    return tg._window(c0, c1, shift), tg._window(c1, c2, shift), tg._window(c2, c3, shift)


@func
def _reduce_large(x: float32):
    """The results of `_reduce_small` for larger |x|: the integer mantissa of x is multiplied by the digits of 2 / pi
    that affect the quotient modulo 4 and the remainder."""
    bits = tg.bitcast(x, tg.uint32)
    offset = ((bits >> 23) & 255) - 120  # Higher bits contribute multiples of 4.
    w0, w1, w2 = tg._two_over_pi(offset)
    m = tg.uint64((bits & 0x7FFFFF) | 0x800000)
    product = ((m * tg.uint64(w0)) << 32) + m * tg.uint64(w1) + ((m * tg.uint64(w2)) >> 32)
    q = tg.int32((product + 0x2000000000000000) >> 62)
    remainder = tg.float64(tg.bitcast(product << 2, tg.int64)) * (1.5707963267948966 * 2.0**-64)
    remainder = tg.where(x < 0.0, -remainder, remainder)
    high = tg.float32(remainder)
    return high, tg.float32(remainder - tg.float64(high)), tg.where(x < 0.0, -q, q) & 3


@func
def _two_over_pi(offset: uint64):
    """The 192 bits of 2 / pi from bit `offset` (0 .. 1087) on, as three words."""
    w = TWO_OVER_PI_WORDS_64
    sixteen, eight = (offset & 1024) != 0, (offset & 512) != 0
    four, two, one = (offset & 256) != 0, (offset & 128) != 0, (offset & 64) != 0
    a0 = tg.where(sixteen, tg.uint64(w[16]), tg.where(eight, tg.uint64(w[8]), tg.uint64(w[0])))
    a1 = tg.where(sixteen, tg.uint64(w[17]), tg.where(eight, tg.uint64(w[9]), tg.uint64(w[1])))
    a2 = tg.where(sixteen, tg.uint64(w[18]), tg.where(eight, tg.uint64(w[10]), tg.uint64(w[2])))
    a3 = tg.where(sixteen, tg.uint64(w[19]), tg.where(eight, tg.uint64(w[11]), tg.uint64(w[3])))
    a4 = tg.where(eight, tg.uint64(w[12]), tg.uint64(w[4]))
    a5 = tg.where(eight, tg.uint64(w[13]), tg.uint64(w[5]))
    a6 = tg.where(eight, tg.uint64(w[14]), tg.uint64(w[6]))
    a7 = tg.where(eight, tg.uint64(w[15]), tg.uint64(w[7]))
    a8 = tg.where(eight, tg.uint64(w[16]), tg.uint64(w[8]))
    a9 = tg.where(eight, tg.uint64(w[17]), tg.uint64(w[9]))
    a10 = tg.where(eight, tg.uint64(w[18]), tg.uint64(w[10]))
    b0, b1, b2 = tg.where(four, a4, a0), tg.where(four, a5, a1), tg.where(four, a6, a2)
    b3, b4, b5 = tg.where(four, a7, a3), tg.where(four, a8, a4), tg.where(four, a9, a5)
    b6 = tg.where(four, a10, a6)
    c0, c1, c2 = tg.where(two, b2, b0), tg.where(two, b3, b1), tg.where(two, b4, b2)
    c3, c4 = tg.where(two, b5, b3), tg.where(two, b6, b4)
    d0, d1 = tg.where(one, c1, c0), tg.where(one, c2, c1)
    d2, d3 = tg.where(one, c3, c2), tg.where(one, c4, c3)
    shift = offset & 63
    return tg._window(d0, d1, shift), tg._window(d1, d2, shift), tg._window(d2, d3, shift)


@func
def _high_product(a: uint64, b: uint64):
    """The upper 64 bits of a * b."""
    a1, a0, b1, b0 = a >> 32, a & LOW_HALF, b >> 32, b & LOW_HALF
    cross = a1 * b0 + ((a0 * b0) >> 32)
    middle = a0 * b1 + (cross & LOW_HALF)
    return a1 * b1 + (cross >> 32) + (middle >> 32)


@func
def _reduce_large(x: float64):
    bits = tg.bitcast(x, tg.uint64)
    offset = ((bits >> 52) & 2047) - 1013
    w0, w1, w2 = tg._two_over_pi(offset)
    m = (bits & 0xFFFFFFFFFFFFF) | 0x10000000000000
    middle_1 = m * w1
    middle = middle_1 + tg._high_product(m, w2)
    carry = tg.where(middle < middle_1, tg.uint64(1), tg.uint64(0))
    top = m * w0 + tg._high_product(m, w1) + carry
    q = tg.int64((top + 0x2000000000000000) >> 62)
    # The signed fraction in four pieces of 32 bits, which are summed to two floats. Near a multiple of pi / 2 the first
    # two pieces may have only 2 significant bits.
    first = tg.bitcast((top << 2) | (middle >> 62), tg.int64)
    second = middle << 2
    piece_0 = tg.float64(tg.int32(first >> 32)) * 2.0**-32
    piece_1 = tg.float64(tg.uint32(tg.bitcast(first, tg.uint64) & LOW_HALF)) * 2.0**-64
    piece_2 = tg.float64(tg.uint32(second >> 32)) * 2.0**-96
    piece_3 = tg.float64(tg.uint32(second & LOW_HALF)) * 2.0**-128
    upper = piece_0 + piece_1
    lower = piece_2 + piece_3
    upper_error = ((piece_0 - upper) + piece_1) + lower
    remainder = upper + upper_error
    remainder_low = ((upper - remainder) + upper_error) + ((piece_2 - lower) + piece_3)
    r = remainder * HALF_PI_64[0]
    low = tg.fma(
        remainder_low, HALF_PI_64[0], tg.fma(remainder, HALF_PI_64[1], tg.fma(remainder, HALF_PI_64[0], -r))
    )
    high = r + low
    high_error = (r - high) + low
    is_negative = x < 0.0
    return (
        tg.where(is_negative, -high, high),
        tg.where(is_negative, -high_error, high_error),
        tg.where(is_negative, -q, q) & 3,
    )


@func
def _reduce_by_half_pi(x: float32):
    """The remainder r of finite x by pi / 2, the rounding error of r, and the quotient modulo 4."""
    high, low, q = tg._reduce_small(x)
    if tg.abs(x) > MAX_SMALL_32:
        high, low, q = tg._reduce_large(x)
    return high, low, q


@func
def _reduce_by_half_pi(x: float64):
    high, low, q = tg._reduce_small(x)
    if tg.abs(x) > MAX_SMALL_64:
        high, low, q = tg._reduce_large(x)
    return high, low, q


@func
def _sine(r: float32, low: float32):
    """The sine of r + low for |r| <= pi / 4."""
    z = r * r
    return r + tg.fma(r * z, tg._poly3(z, *SIN_32), tg.fma(-0.5 * z, low, low))


@func
def _sine(r: float64, low: float64):
    z = r * r
    return r + tg.fma(r * z, tg._poly6(z, *SIN_64), tg.fma(-0.5 * z, low, low))


@func
def _cosine(r: float32, low: float32):
    """The cosine of r + low for |r| <= pi / 4."""
    z = r * r
    half = 0.5 * z
    w = 1.0 - half
    return w + tg.fma(z * z, tg._poly2(z, *COS_32), tg.fma(-r, low, (1.0 - w) - half))


@func
def _cosine(r: float64, low: float64):
    z = r * r
    half = 0.5 * z
    w = 1.0 - half
    return w + tg.fma(z * z, tg._poly5(z, *COS_64), tg.fma(-r, low, (1.0 - w) - half))


@func
def _sine_of_quarter(r: float32, low: float32, q: int32):
    """The sine of r + low + q pi / 2."""
    value = tg.where((q & 1) != 0, tg._cosine(r, low), tg._sine(r, low))
    return tg.where((q & 2) != 0, -value, value)


@func
def _sine_of_quarter(r: float64, low: float64, q: int64):
    value = tg.where((q & 1) != 0, tg._cosine(r, low), tg._sine(r, low))
    return tg.where((q & 2) != 0, -value, value)


@func
def sin(x: float32):
    """The sine of an angle; NaN for infinite x.

    Arguments of any size are as accurate as small ones. The error is at most 1.5 units in the last place in
    float32, 1 in float64; 16-bit results are rounded once more from float32.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, or a tile of such elements, in radians.
    Gradient:
        adjoint * cos(x).
    Source:
        remainder by pi / 2: Payne and Hanek, Radian Reduction for Trigonometric Functions, SIGNUM 18 (1983);
        polynomials by the Remez algorithm (tools/minimax.py).
    """
    r, low, q = tg._reduce_by_half_pi(x)
    value = tg.where(tg.abs(x) < inf, tg._sine_of_quarter(r, low, q), tg.float32(nan))
    return tg.where(tg.abs(x) < 2.0**-30, x, value)


@func
def sin(x: float64):  # noqa: F811
    """The sine of a float64 angle in radians."""
    r, low, q = tg._reduce_by_half_pi(x)
    value = tg.where(tg.abs(x) < inf, tg._sine_of_quarter(r, low, q), tg.float64(nan))
    return tg.where(tg.abs(x) < 2.0**-30, x, value)


@func
def cos(x: float32):
    """The cosine of an angle; NaN for infinite x.

    Arguments of any size are as accurate as small ones. The error is at most 1.5 units in the last place in
    float32, 1 in float64; 16-bit results are rounded once more from float32.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, or a tile of such elements, in radians.
    Gradient:
        -adjoint * sin(x).
    Source:
        remainder by pi / 2: Payne and Hanek, Radian Reduction for Trigonometric Functions, SIGNUM 18 (1983);
        polynomials by the Remez algorithm (tools/minimax.py).
    """
    r, low, q = tg._reduce_by_half_pi(x)
    return tg.where(tg.abs(x) < inf, tg._sine_of_quarter(r, low, q + 1), tg.float32(nan))


@func
def cos(x: float64):  # noqa: F811
    """The cosine of a float64 angle in radians."""
    r, low, q = tg._reduce_by_half_pi(x)
    return tg.where(tg.abs(x) < inf, tg._sine_of_quarter(r, low, q + 1), tg.float64(nan))


@func
def _tangent(t: float32, low: float32, is_inverted: bool_):
    """The number t + low, or -1 / (t + low), with an error slightly above one rounding."""
    i = 1.0 / t
    refined = tg.fma(i, tg.fma(-low, i, tg.fma(-t, i, 1.0)), i)
    return tg.where(is_inverted, -refined, t)


@func
def _tangent(t: float64, low: float64, is_inverted: bool_):
    i = 1.0 / t
    refined = tg.fma(i, tg.fma(-low, i, tg.fma(-t, i, 1.0)), i)
    return tg.where(is_inverted, -refined, t)


@func
def tan(x: float32):
    """The tangent of an angle; NaN for infinite x.

    Arguments of any size are as accurate as small ones. The error is at most 1.5 units in the last place in
    float32, 1 in float64; 16-bit results are rounded once more from float32.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, or a tile of such elements, in radians.
    Gradient:
        adjoint * (1 + tan(x)**2).
    Source:
        remainder by pi / 2: Payne and Hanek, Radian Reduction for Trigonometric Functions, SIGNUM 18 (1983);
        polynomials by the Remez algorithm (tools/minimax.py).
    """
    r, low, q = tg._reduce_by_half_pi(x)
    z = r * r
    p = tg._poly6(z, *TAN_32)
    estimate = tg.fma(r * z, p, r)
    tail = tg.fma(r * z, p, tg.fma(estimate * estimate, low, low))
    t = r + tail
    value = tg._tangent(t, (r - t) + tail, (q & 1) != 0)
    value = tg.where(tg.abs(x) < inf, value, tg.float32(nan))
    return tg.where(tg.abs(x) < 2.0**-30, x, value)


@func
def tan(x: float64):  # noqa: F811
    """The tangent of a float64 angle in radians."""
    r, low, q = tg._reduce_by_half_pi(x)
    z = r * r
    cube = r * z
    cube_low = tg.fma(r, tg.fma(r, r, -z), tg.fma(r, z, -cube))
    p = tg._poly14(z, *TAN_64)
    estimate = tg.fma(cube, p, r)
    tail = tg.fma(cube, p, tg.fma(cube_low, p, tg.fma(estimate * estimate, low, low)))
    t = r + tail
    value = tg._tangent(t, (r - t) + tail, (q & 1) != 0)
    value = tg.where(tg.abs(x) < inf, value, tg.float64(nan))
    return tg.where(tg.abs(x) < 2.0**-30, x, value)
