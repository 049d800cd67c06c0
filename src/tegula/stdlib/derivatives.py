"""Derivatives of the functions that are computed from polynomials and bits.

`_f_adjoint` takes the arguments of f, its result and the result's adjoint, and gives what the adjoint of each argument
grows by. Functions without one are differentiated as they are written."""

from __future__ import annotations

from math import log, pi, sqrt

from tegula.stdlib.registry import func, tg

LN_2, LN_10 = log(2), log(10)
ROOT_PI = sqrt(pi)


@func
def _cbrt_adjoint(x, y, g):
    return g / (3.0 * y * y)


@func
def _hypot_adjoint(x, y, r, g):
    some = r > 0.0
    size = tg.where(some, r, r + 1.0)
    return tg.where(some, g * (x / size), g * 0.0), tg.where(some, g * (y / size), g * 0.0)


@func
def _mod_adjoint(x, y, r, g):
    return g, -g * tg.rint((x - r) / y)


@func
def _exp_adjoint(x, y, g):
    return g * y


@func
def _exp2_adjoint(x, y, g):
    return g * y * LN_2


@func
def _exp10_adjoint(x, y, g):
    return g * y * LN_10


@func
def _expm1_adjoint(x, y, g):
    return g * tg.exp(x)


@func
def _sinh_adjoint(x, y, g):
    return g * tg.cosh(x)


@func
def _cosh_adjoint(x, y, g):
    return g * tg.sinh(x)


@func
def _tanh_adjoint(x, y, g):
    """1 - y y loses its digits where y is near 1: there it is 1 / cosh(x) squared, written with exp(-2 |x|)."""
    e = tg.exp(-2.0 * tg.abs(x))
    return g * (4.0 * e / ((1.0 + e) * (1.0 + e)))


@func
def _log_adjoint(x, y, g):
    return g / x


@func
def _log2_adjoint(x, y, g):
    return g / (x * LN_2)


@func
def _log10_adjoint(x, y, g):
    return g / (x * LN_10)


@func
def _log1p_adjoint(x, y, g):
    return g / (1.0 + x)


@func
def _pow_adjoint(x, y, z, g):
    """x**0 is constant, and so is 0**y around a positive y."""
    zero = g * 0.0
    base = tg.where(x > 0.0, x, x * 0.0 + 1.0)
    by_base = tg.where(y == 0.0, zero, g * y * tg.pow(x, y - 1.0))
    return by_base, tg.where(x > 0.0, g * z * tg.log(base), zero)


@func
def _sin_adjoint(x, y, g):
    return g * tg.cos(x)


@func
def _cos_adjoint(x, y, g):
    return -g * tg.sin(x)


@func
def _tan_adjoint(x, y, g):
    return g * (1.0 + y * y)


@func
def _asin_adjoint(x, y, g):
    return g / tg.sqrt((1.0 - x) * (1.0 + x))


@func
def _acos_adjoint(x, y, g):
    return -g / tg.sqrt((1.0 - x) * (1.0 + x))


@func
def _atan_adjoint(x, y, g):
    return g / (1.0 + x * x)


@func
def _atan2_adjoint(y, x, r, g):
    size = x * x + y * y
    return g * x / size, -g * y / size


@func
def _erf_adjoint(x, y, g):
    return g * (2.0 / ROOT_PI) * tg.exp(-x * x)


@func
def _erfc_adjoint(x, y, g):
    return -g * (2.0 / ROOT_PI) * tg.exp(-x * x)


@func
def _erfinv_adjoint(x, y, g):
    return g * (ROOT_PI / 2.0) * tg.exp(y * y)
