"""Activation functions. Float32 results have the standard library's accuracy. 16-bit results use shorter formulas: gelu
has an absolute error of at most 2e-7 |x|, silu a relative error of at most 2e-6."""

from typing import Any

import tegula as tg

LOG2E = 1.4426950408889634
SQRT_HALF = 0.7071067811865476
# erfc(z) exp(z * z) for z >= 0 as a polynomial in t = 1 / (1 + P z), to 1.5e-7: Abramowitz and Stegun, 7.1.26.
P = 0.3275911
A1, A2, A3, A4, A5 = 0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429


@tg.func
def relu(x: float):
    """The larger of x and 0."""
    return tg.max(x, 0.0)


@tg.func
def gelu(x: float):
    """The Gaussian error linear unit of x, by the error function."""
    return 0.5 * x * (1.0 + tg.erf(x * SQRT_HALF))


@tg.func
def silu(x: float):
    """The sigmoid linear unit: x times the logistic function of x."""
    return x / (1.0 + tg.exp(-x))


@tg.func
def short_gelu(x: float):
    """The Gaussian error linear unit by a short series for the error function, for 16-bit results."""
    z = tg.abs(x) * SQRT_HALF
    t = 1.0 / tg.fma(P, z, 1.0)
    series = tg.fma(t, tg.fma(t, tg.fma(t, tg.fma(t, A5, A4), A3), A2), A1)
    # The upper tail probability of the normal distribution at |x|.
    tail = 0.5 * t * series * tg.fast.exp2(z * z * -LOG2E)
    return x * tg.where(x > 0.0, 1.0 - tail, tail)


@tg.func
def short_silu(x: float):
    """The sigmoid linear unit by the hardware's exponential, for 16-bit results."""
    return x / (1.0 + tg.fast.exp2(x * -LOG2E))


EXACT_ACTIVATIONS: dict[str, Any] = {"relu": relu, "gelu": gelu, "silu": silu}
SHORT_ACTIVATIONS: dict[str, Any] = {"relu": relu, "gelu": short_gelu, "silu": short_silu}
"""The activation functions of float32 and of 16-bit results, by name."""
