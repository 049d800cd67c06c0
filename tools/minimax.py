"""Compute the polynomial coefficients of the standard library: `python tools/minimax.py` writes coefficients.py.

Each fit is the polynomial of a given degree with the least maximal weighted error on an interval, found by Remez
exchange in high precision. Coefficients are then rounded to the precision they are used in. Where rounding errors are
as large as the error of the polynomial, a search among neighbouring float32 coefficients follows, which evaluates the
polynomial as the library does."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from mpmath import mp, mpf

TARGET = Path(__file__).parent.parent / "src" / "tegula" / "stdlib" / "coefficients.py"
Real = Callable[[mpf], mpf]


@dataclass(frozen=True)
class MinimaxFit:
    """The approximation of `f` on [low, high] by a polynomial of `degree`; its error is multiplied by `weight`."""

    f: Real
    degree: int
    low: object
    high: object
    weight: Real = lambda t: mpf(1)


def evaluate(coefficients: list[mpf], t: mpf) -> mpf:
    total = mpf(0)
    for c in reversed(coefficients):
        total = total * t + c
    return total


def minimax(fit: MinimaxFit) -> tuple[list[mpf], mpf]:
    """The coefficients, lowest power first, and the maximal weighted error."""
    n, low, high = fit.degree, mpf(fit.low), mpf(fit.high)
    count = 24 * (n + 2)
    grid = [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * i / count) for i in range(count + 1)]
    values = [fit.f(t) for t in grid]
    weights = [fit.weight(t) for t in grid]
    extremes = [round(i * count / (n + 1)) for i in range(n + 2)]
    for _ in range(12):
        rows = mp.matrix(n + 2, n + 2)
        for r, i in enumerate(extremes):
            for power in range(n + 1):
                rows[r, power] = grid[i] ** power
            rows[r, n + 1] = (-1) ** r / weights[i]
        solved = mp.lu_solve(rows, mp.matrix([values[i] for i in extremes]))
        coefficients, levelled_error = [solved[k] for k in range(n + 1)], abs(solved[n + 1])
        errors = [w * (v - evaluate(coefficients, t)) for t, v, w in zip(grid, values, weights, strict=True)]
        worst = max(map(abs, errors))
        if worst <= levelled_error * mpf("1.01"):
            break
        extremes = exchange_extremes(errors, n + 2)
    return coefficients, worst


@dataclass(frozen=True)
class Power:
    """The evaluation of base**x in float32: x is reduced to r = x - n / scale, where n is the integer next to x * scale
    and `parts` are the negated parts of 1 / scale, and the polynomial of r starts with 1. Numbers within `limits` are
    sampled."""

    base: float
    scale: float
    parts: tuple[float, ...]
    limits: tuple[float, float]

    def samples(self, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Reduced arguments of four ranges of `count` numbers each, the exact results divided by 2**n, and the units in
        their last places."""
        rng, half = np.random.default_rng(1), 0.5 / self.scale
        low, high = self.limits
        ranges = ((low, high), (low / 4, high / 4), (-6 * half, 6 * half))
        spans = [np.linspace(-half, half, count), *(rng.uniform(a, b, count) for a, b in ranges)]
        x = np.concatenate(spans).astype(np.float32)
        shift = np.float32(1.5 * 2**23)
        n = fma(x, np.float32(self.scale), shift) - shift
        r = x
        for part in self.parts:
            r = fma(n, np.float32(part), r)
        exact = np.ldexp(np.longdouble(self.base) ** x.astype(np.longdouble), -n.astype(int)).astype(float)
        return r, exact, np.exp2(np.floor(np.log2(exact)) - 23)


def fma(a: np.ndarray, b: np.ndarray | np.float32, c: np.ndarray | np.float32) -> np.ndarray:
    """a * b + c of float32 numbers, by way of float64, which rounds a second time in few cases."""
    return (np.asarray(a, float) * b + c).astype(np.float32)


def search_coefficients(start: list[float], power: Power, steps: int = 12_000) -> tuple[list[float], float]:
    """The float32 coefficients near `start`, first that of r, whose polynomial 1 + r * (...) has the least error
    in float32 arithmetic among `steps` random changes, and this error in units in the last place."""
    r, exact, units = power.samples(30_000)
    rng = np.random.default_rng(0)

    def worst(coefficients: list[np.float32]) -> float:
        p = np.full_like(r, coefficients[-1])
        for c in (*coefficients[-2::-1], np.float32(1)):
            p = fma(r, p, c)
        return float((np.abs(p - exact) / units).max())

    best = [np.float32(c) for c in start]
    least = worst(best)
    for _ in range(steps):
        candidate = list(best)
        for k in rng.integers(0, len(best), rng.integers(1, 4)):
            ulps = np.round(rng.normal() * (4, 30, 300)[min(k, 2)])
            candidate[k] += np.spacing(candidate[k]) * np.float32(ulps)
        error = worst(candidate)
        if error <= least:
            best, least = candidate, error
    return [float(c) for c in best], least


def exchange_extremes(errors: list[mpf], count: int) -> list[int]:
    """The positions of `count` extremes of the error with alternating signs; the smaller of the two ends is dropped
    until as many are left."""
    extremes: list[int] = []
    for i, e in enumerate(errors):
        if extremes and (errors[extremes[-1]] > 0) == (e > 0):
            if abs(e) > abs(errors[extremes[-1]]):
                extremes[-1] = i
        else:
            extremes.append(i)
    while len(extremes) > count:
        extremes.pop(0 if abs(errors[extremes[0]]) < abs(errors[extremes[-1]]) else -1)
    return extremes


def remainder(f: Real, leading_terms: list[object], step: int = 1) -> Real:
    """(f(t) - known polynomial) / t**len(known), with Taylor coefficients near 0, for a smooth f."""

    def quotient(t: mpf) -> mpf:
        with mp.workprec(mp.prec * 4):
            t = t if abs(t) > mpf(2) ** -60 else mpf(2) ** -60
            return (f(t) - sum(mpf(c) * t**k for k, c in enumerate(leading_terms))) / t ** len(leading_terms)

    return quotient


def odd(f: Real) -> Real:
    """(f(x) / x - 1) / t as a function of t = x * x, for an odd f with slope 1."""
    return remainder(lambda t: f(mp.sqrt(t)) / mp.sqrt(t), [1])


def log_tail(f: mpf) -> mpf:
    """(log(1 + f) - f + f f / 2) / f**3."""
    return remainder(mp.log1p, [0, 1, mpf(-1) / 2])(f)


def atanh_tail(z: mpf) -> mpf:
    """(2 atanh(s) - 2 s) / (s z) at z = s s."""
    return 2 * odd(mp.atanh)(z)


def atanh_tail2(z: mpf) -> mpf:
    return remainder(lambda t: 2 * mp.atanh(mp.sqrt(t)) / mp.sqrt(t), [2, mpf(2) / 3])(z)


def erf_slope(t: mpf) -> mpf:
    """erf(x) / x - 1 at t = x * x."""
    with mp.workprec(mp.prec * 2):
        x = mp.sqrt(max(t, mpf(2) ** -100))
        return mp.erf(x) / x - 1


def log_erfc(x: mpf) -> mpf:
    return mp.log(mp.erfc(x))


def scaled_erfc(pivot: int) -> Real:
    """exp(x x) erfc(x) (1 + 2 x) as a function of q = (x - pivot) / (x + pivot)."""

    def f(q: mpf) -> mpf:
        x = pivot * (1 + q) / (1 - q)
        return mp.exp(x * x) * mp.erfc(x) * (1 + 2 * x)

    return f


def q_range(pivot: int, low: float, high: float) -> tuple[mpf, mpf]:
    return (mpf(low) - pivot) / (mpf(low) + pivot), (mpf(high) - pivot) / (mpf(high) + pivot)


def inverse_erf(complement: mpf) -> mpf:
    """The y with erfc(y) = complement, by Newton's method on log(erfc)."""
    if complement > mpf("0.5"):
        y = (1 - complement) * mp.sqrt(mp.pi) / 2
    else:
        w = -mp.log(complement)
        y = mp.sqrt(w - mp.log(mp.pi * w) / 2) if w > 2 else mpf(0.5)
    for _ in range(60):
        tail = mp.erfc(y)
        slope = -2 / mp.sqrt(mp.pi) * mp.exp(-y * y)
        if complement > mpf("0.5"):
            step = (tail - complement) / slope
        else:
            step = mp.log(tail / complement) * tail / slope
        y -= step
        if abs(step) < abs(y) * mpf(2) ** (-mp.prec + 12):
            break
    return y


def erfinv_of_w(shift: float, root: bool) -> Real:
    """erfinv(x) / x at u, where w = -log((1 - x)(1 + x)) and u = w - shift, or sqrt(w) - shift."""

    def f(u: mpf) -> mpf:
        with mp.workprec(mp.prec + 60):
            w = (u + shift) ** 2 if root else u + shift
            w = max(w, mpf(2) ** -80)
            gap = mp.exp(-w)  # 1 - x x
            x = mp.sqrt(-mp.expm1(-w))
            return inverse_erf(gap / (1 + x)) / x

    return f


def tail_of_erfcinv(shift: float) -> Real:
    """erfcinv(x) - sqrt(w) at u = log(sqrt(w)) - shift, where w = -log(x (2 - x))."""

    def f(u: mpf) -> mpf:
        with mp.workprec(mp.prec + 60):
            w = mp.exp(2 * (u + shift))
            return inverse_erf(-mp.expm1(mp.log1p(-mp.exp(-w)) / 2)) - mp.sqrt(w)

    return f


def fits() -> dict[str, tuple[int, MinimaxFit]]:
    """The fits by name, each with the bits of its format's mantissa."""
    ln2, ln10 = mp.log(2), mp.log(10)
    half_ln2 = ln2 / 2 * mpf("1.001")
    quarter = mpf("0.79")
    half_log = ln10 * mp.log10(2) / 2 / ln10 * mpf("1.001")
    m_low, m_high = mp.sqrt(mpf(1) / 2) - 1 - mpf("1e-6"), mp.sqrt(2) - 1 + mpf("1e-6")
    z_log = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 * mpf("1.0001")
    z_atan = (mp.sqrt(2) - 1) ** 2 * mpf("1.001")

    def cube(f: mpf) -> mpf:
        return abs(f) ** 2

    def tail_weight(t: mpf) -> mpf:
        return max(t, mpf(2) ** -40)

    def tan_weight(t: mpf) -> mpf:
        return tail_weight(t)

    fits_by_name: dict[str, tuple[int, MinimaxFit]] = {}

    def add_fits(
        name: str, f: Real, degrees: tuple[int, int], low: object, high: object, weight: Real
    ) -> None:
        for bits, degree, suffix in ((24, degrees[0], "32"), (53, degrees[1], "64")):
            if degree:
                fits_by_name[f"{name}_{suffix}"] = (bits, MinimaxFit(f, degree, low, high, weight))

    square = lambda r: r * r + mpf(2) ** -40  # noqa: E731
    add_fits("EXP", remainder(mp.exp, [1, 1]), (4, 10), -half_ln2, half_ln2, square)
    fits_by_name["EXP2_64"] = (
        53,
        MinimaxFit(
            remainder(lambda r: mp.exp(r * ln2), [1]), 11, "-0.501", "0.501", lambda r: abs(r) + mpf(2) ** -30
        ),
    )
    add_fits(
        "EXP10",
        remainder(lambda r: mp.exp(r * ln10), [1]),
        (5, 11),
        -half_log,
        half_log,
        lambda r: abs(r) + mpf(2) ** -30,
    )
    add_fits("LOG", log_tail, (7, 0), m_low, m_high, cube)
    add_fits("ATANH", atanh_tail, (0, 6), 0, z_log, tail_weight)
    add_fits("ATANH2", atanh_tail2, (0, 7), 0, z_log, lambda z: tail_weight(z) ** 2)
    fits_by_name["POW_LOG_32"] = (53, MinimaxFit(atanh_tail, 4, 0, z_log, tail_weight))
    fits_by_name["POW_EXP_32"] = (
        53,
        MinimaxFit(
            remainder(lambda r: mp.exp(r * ln2), [1]), 6, "-0.501", "0.501", lambda r: abs(r) + mpf(2) ** -30
        ),
    )
    add_fits("SIN", odd(mp.sin), (3, 6), 0, quarter**2, tail_weight)
    add_fits(
        "COS",
        remainder(lambda t: mp.cos(mp.sqrt(t)), [1, mpf(-1) / 2]),
        (2, 5),
        0,
        quarter**2,
        lambda t: tail_weight(t) ** 2,
    )
    add_fits("TAN", odd(mp.tan), (6, 14), 0, quarter**2, tan_weight)
    add_fits("ASIN", odd(mp.asin), (5, 12), 0, mpf("0.2501"), tail_weight)
    add_fits("ATAN", odd(mp.atan), (4, 11), 0, z_atan, tail_weight)
    add_fits("SINH", odd(mp.sinh), (3, 7), 0, mpf("1.001"), tail_weight)
    fits_by_name["TANH_64"] = (53, MinimaxFit(odd(mp.tanh), 11, 0, mpf("0.3907"), tail_weight))
    half_expm1 = remainder(lambda r: mp.expm1(2 * r) / 2, [0, 1])
    fits_by_name["HALF_EXPM1_32"] = (
        24,
        MinimaxFit(half_expm1, 4, -half_ln2 / 2, half_ln2 / 2, lambda r: abs(r) + mpf(2) ** -30),
    )
    add_fits("ERF", erf_slope, (6, 12), 0, mpf("0.8472"), lambda t: mpf(1))
    fits_by_name["ERF_TAIL_32"] = (24, MinimaxFit(log_erfc, 8, mpf("0.92"), mpf(4), mp.erfc))
    fits_by_name["ERFC_32"] = (24, MinimaxFit(scaled_erfc(2), 10, *q_range(2, 0.5, 10.3)))
    fits_by_name["ERFC_64"] = (53, MinimaxFit(scaled_erfc(4), 22, *q_range(4, 0.5, 27.6)))
    for name, bits, degree, low, high, shift, root, base in (
        ("ERFINV_NEAR_32", 24, 11, "0", "5.001", 2.5, False, 1),
        ("ERFINV_FAR_32", 24, 10, "2.236", "4.1", 3.0, True, 2),
        ("ERFINV_NEAR_64", 53, 26, "0", "6.2501", 2.0, False, 1),
        ("ERFINV_MID_64", 53, 21, "2.4999", "4.0001", 3.25, True, 2),
        ("ERFINV_FAR_64", 53, 19, "3.9999", "6.1", 5.0, True, 4),
    ):
        f = erfinv_of_w(shift, root)
        without_base = lambda u, f=f, base=base: f(u) - base  # noqa: E731
        fits_by_name[name] = (
            bits,
            MinimaxFit(without_base, degree, mpf(low) - shift, mpf(high) - shift, lambda u, f=f: 1 / f(u)),
        )
    low, high = (mp.log(mpf(root)) - mpf("2.5") for root in ("5.999", "27.3"))
    fits_by_name["ERFCINV_64"] = (53, MinimaxFit(tail_of_erfcinv(2.5), 16, low, high))
    return fits_by_name


def powers() -> dict[str, Power]:
    """The float32 powers whose polynomials of degree 5 are searched, by the names of their coefficients."""
    ln2 = split(mp.log(2), [16], 24)
    return {
        "SHORT_EXP_32": Power(math.e, 1 / math.log(2), (-ln2[0], -ln2[1]), (-87, 88)),
        "EXP2_32": Power(2, 1, (-1.0,), (-126, 127)),
    }


def start_of_search(power: Power) -> list[float]:
    """The minimax polynomial of degree 5, without its constant. Errors below 1, where a unit in the last place is half
    as large, weigh more."""
    half, slope = mpf("0.5005") / mpf(power.scale), mp.log(2) * mpf(power.scale)
    fit = MinimaxFit(lambda r: mp.exp(r * slope), 5, -half, half, lambda r: mpf("1.6") if r < 0 else mpf(1))
    return [float(c) for c in minimax(fit)[0][1:]]


def rounded(value: mpf, bits: int) -> float:
    return float(np.float32(float(value))) if bits == 24 else float(value)


def two_over_pi(bits_per_word: int, zeros: int, words: int) -> list[int]:
    """The binary digits of 2 / pi after the point, split into words, after `zeros` words of 0."""
    with mp.workprec(bits_per_word * words + 64):
        digits = int(mp.floor(2 / mp.pi * mpf(2) ** (bits_per_word * (words - zeros))))
    mask = (1 << bits_per_word) - 1
    return [digits >> (bits_per_word * (words - 1 - k)) & mask for k in range(words)]


def split(value: mpf, bits: list[int], format_bits: int, rounding: str = "n") -> list[float]:
    """`value` as a sum of numbers with the given bits; the last has the format's precision.

    Parts rounded down ("d") have the sign of the value, so their products with a zero or an infinity add up."""
    parts: list[float] = []
    for b in [*bits, format_bits]:
        part = mpf(value, prec=b, rounding=rounding)
        parts.append(float(part))
        value = value - part
    return parts


def constants() -> dict[str, tuple[float, ...]]:
    """Constants as unevaluated sums, leading part first."""
    half_pi, ln2 = mp.pi / 2, mp.log(2)
    return {
        "HALF_PI_32": tuple(split(half_pi, [24, 24], 24)),
        "HALF_PI_64": tuple(split(half_pi, [53, 53], 53)),
        "LN2_32": tuple(split(ln2, [16], 24)),
        "LN2_64": tuple(split(ln2, [42], 53)),
        "LN2_PAIR_64": tuple(split(ln2, [42, 53], 53)),
        "LOG2E_32": tuple(split(1 / ln2, [24], 24)),
        "LOG2E_64": tuple(split(1 / ln2, [53], 53)),
        "LOG10E_32": tuple(split(1 / mp.log(10), [24], 24)),
        "LOG10E_64": tuple(split(1 / mp.log(10), [53], 53)),
        "LOG10_2_32": tuple(split(mp.log10(2), [16], 24)),
        "LOG10_2_64": tuple(split(mp.log10(2), [42], 53)),
        "LOG2_10": tuple(split(mp.log(10, 2), [], 53)),
        "TWO_THIRDS_64": tuple(split(mpf(2) / 3, [53], 53)),
        "TWO_OVER_PI": tuple(split(2 / mp.pi, [], 53)),
        "DEGREES_32": tuple(split(180 / mp.pi, [24], 24, "d")),
        "DEGREES_64": tuple(split(180 / mp.pi, [53], 53, "d")),
        "RADIANS_32": tuple(split(mp.pi / 180, [24], 24, "d")),
        "RADIANS_64": tuple(split(mp.pi / 180, [53], 53, "d")),
    }


def main() -> None:
    mp.prec = 160
    lines = [
        '"""Coefficients and constants of the standard library, written by tools/minimax.py: do not edit.',
        "",
        'Polynomials: lowest power first. Constants: parts whose sum is the number."""',
        "",
    ]
    for name, (bits, fit) in fits().items():
        coefficients, largest_error = minimax(fit)
        print(
            f"{name:16} degree {fit.degree:2}  error 2^{float(mp.log(largest_error, 2)):.1f}", file=sys.stderr
        )
        lines.append(f"{name} = ({', '.join(repr(rounded(c, bits)) for c in coefficients)},)")
    for name, power in powers().items():
        coefficients, error = search_coefficients(start_of_search(power), power)
        print(f"{name:16} degree  5  error {error:.3f} units in the last place", file=sys.stderr)
        lines.append(f"{name} = ({', '.join(map(repr, coefficients))},)")
    lines += [f"{name} = ({', '.join(map(repr, parts))},)" for name, parts in constants().items()]
    for name, words in (
        ("TWO_OVER_PI_WORDS_32", two_over_pi(32, 1, 8)),
        ("TWO_OVER_PI_WORDS_64", two_over_pi(64, 1, 20)),
    ):
        lines.append(f"{name} = ({', '.join(map(hex, words))},)")
    TARGET.write_text("\n".join(lines) + "\n")
    subprocess.run([sys.executable, "-m", "ruff", "format", str(TARGET)], check=True)


if __name__ == "__main__":
    main()
