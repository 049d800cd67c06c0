"""The error of the library's functions in units in the last place, exactly, against multiprecision arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
from mpmath import mp, mpf

import tegula as tg
from tegula.stdlib import EXACT_DEFINITIONS

Range = tuple[float, float]
KINDS: dict[Any, tuple[Any, Any]] = {
    np.float32: (tg.float32, np.uint32),
    np.float64: (tg.float64, np.uint64),
}
PRECISION = 140
DEFAULT_COUNT, SLOW_COUNT, STRIDE = 2500, 30_000, 509
"""The number of arguments that are drawn, and the stride of the sweep over all float32 numbers."""


@dataclass(frozen=True)
class Case:
    """A function to measure. `exact`: in multiprecision; `ranges`: intervals from which arguments are drawn uniformly,
    besides random bits.

    `bounds`: the documented bound of the error for float32 and float64, in ulp. `second`: the ranges of a second
    argument."""

    exact: Callable[..., mpf]
    ranges: tuple[Range, ...]
    bounds: tuple[float, float] = (2.0, 2.0)
    second: tuple[Range, ...] = ()


ANGLES = ((-1.0, 1.0), (-10.0, 10.0), (-1e5, 1e5), (-1e9, 1e9))
AROUND = ((-1.0, 1.0), (-20.0, 20.0))
UNIT = ((-1.0, 1.0), (0.9, 1.0))
POSITIVE = ((0.5, 2.0), (0.99, 1.01), (0.0, 1e4))
PLANE = ((-1.0, 1.0), (-100.0, 100.0))

CASES: dict[str, Case] = {
    "exp": Case(mpmath.exp, ((-1, 1), (-110, 95), (-750, 715)), (2.0, 1.0)),
    "exp2": Case(lambda x: mpf(2) ** x, ((-1, 1), (-152, 130), (-1080, 1030))),
    "exp10": Case(lambda x: mpf(10) ** x, ((-1, 1), (-46, 39), (-325, 310))),
    "expm1": Case(mpmath.expm1, (*AROUND, (-50, 720))),
    "log": Case(mpmath.log, POSITIVE, (1.5, 1.0)),
    "log2": Case(lambda x: mpmath.log(x) / mpmath.log(2), POSITIVE),
    "log10": Case(lambda x: mpmath.log(x) / mpmath.log(10), POSITIVE),
    "log1p": Case(mpmath.log1p, ((-1, 1), (-0.01, 0.01), (0, 1e4))),
    "sin": Case(mpmath.sin, ANGLES, (1.5, 1.0)),
    "cos": Case(mpmath.cos, ANGLES, (1.5, 1.0)),
    "tan": Case(mpmath.tan, ANGLES, (1.5, 1.0)),
    "asin": Case(mpmath.asin, UNIT),
    "acos": Case(mpmath.acos, UNIT),
    "atan": Case(mpmath.atan, AROUND),
    "atan2": Case(mpmath.atan2, PLANE, second=PLANE),
    "sinh": Case(mpmath.sinh, (*AROUND, (-90, 90), (-720, 720))),
    "cosh": Case(mpmath.cosh, (*AROUND, (-90, 90), (-720, 720))),
    "tanh": Case(mpmath.tanh, AROUND, (2.0, 2.0)),
    "pow": Case(
        lambda x, y: x**y, ((0, 2), (0, 100), (0.9, 1.1)), (1.5, 2.0), ((-3, 3), (-100, 100), (-800, 800))
    ),
    "erf": Case(mpmath.erf, ((-1, 1), (-6.5, 6.5)), (1.5, 2.0)),
    "erfc": Case(mpmath.erfc, ((-1, 3), (-6, 11), (-6, 27.5))),
    "erfinv": Case(mpmath.erfinv, ((-0.9, 0.9), (0.99, 1), (1 - 1e-6, 1))),
    "cbrt": Case(lambda x: mpmath.cbrt(x) if x >= 0 else -mpmath.cbrt(-x), AROUND),
    "hypot": Case(mpmath.hypot, PLANE, second=PLANE),
    "rsqrt": Case(lambda x: 1 / mpmath.sqrt(x), POSITIVE),
    "degrees": Case(mpmath.degrees, AROUND),
    "radians": Case(mpmath.radians, AROUND),
}

CASES |= {
    name: Case(definition.exact, definition.ranges[0], definition.bounds, *definition.ranges[1:])
    for name, definition in EXACT_DEFINITIONS.items()
}

HARD_ARGUMENTS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "exp": ((-5.1680274, 16.3178825), (0.35837270876317895,)),
    "log": ((1.3982705, 0.69967180), (0.6290095269021256,)),
    "sin": ((59593164.0,), (-0.7997981573475374,)),
    "tan": ((6.703174451449739e34, 2.3977228737550746e18), (9.232298414492164e157,)),
    "atan": ((0.4435819, -0.43404886), (-0.4981853617702809,)),
    "tanh": ((-0.62892711, 0.62711590), (0.6395125297993229,)),
    "erfc": ((0.55113655, -0.43964866), (3.2763323263525344, 0.5001906808085379)),
    "erfinv": (
        (-0.033034340, 0.13897336),
        (0.07021472253418362, 0.9952323860237174, 0.9951870593610326, 0.9999999719508067),
    ),
    "degrees": ((2.355274432867866e-40,), (6.552436000461066e-309,)),
}
"""Arguments, for float32 and float64, with the largest errors found by longer searches, or once beyond the promised
bound."""


PERIODIC = ("sin", "cos", "tan")
"""Functions whose least accurate arguments are next to multiples of pi / 2."""
BINADE_STEP = 37
"""The step between the exponents of float64 arguments next to multiples of pi / 2."""


def next_to_quarters(kind: Any, binade_step: int) -> np.ndarray:
    """The numbers in every `binade_step`-th binade that are closest to multiples of pi / 2, by continued fractions:
    if p / q is next to 2**e / (pi / 2), q * 2**e is next to p * pi / 2."""
    digits, largest = np.finfo(kind).nmant + 1, np.finfo(kind).maxexp
    arguments_near: set[float] = set()
    with mp.workprec(3000):
        for e in range(-digits, largest - digits, binade_step):
            rest = mpf(2) ** e * 2 / mp.pi
            previous, q = 1, 0
            while True:
                integer_part = int(mpmath.floor(rest))
                previous, q = q, integer_part * q + previous
                if q >> digits:
                    break
                rest = 1 / (rest - integer_part)
                longest = (1 << digits) // max(q, 1)
                close = [q, q * longest, q * (longest // 2), *(previous + k * q for k in range(1, 6))]
                arguments_near.update(float(mpmath.ldexp(m, e)) for m in close if 0 < m < 1 << digits)
    return np.array(sorted(arguments_near), np.float64).astype(kind)


LIMITS = {"exp": 71.0, "exp2": 102.0, "exp10": 30.0}
"""The bounds below which functions use fewer instructions, if the compiler proves that the argument is not above the
bound."""
BOUNDED_ARGUMENTS = "-tg.abs(a0[i])", "tg.min(a0[i], {limit})"
"""Arguments that are known to be below the bound."""


def arguments(ranges: tuple[Range, ...], kind: Any, count: int, seed: int) -> np.ndarray:
    """A third of random bits and a third of numbers close to the ends of ranges and to 0; the others are distributed
    uniformly."""
    rng = np.random.default_rng(seed)
    integers = KINDS[kind][1]
    part = count // 3
    bits = rng.integers(0, np.iinfo(integers).max, part, dtype=integers, endpoint=True).view(kind)
    range_indices = rng.integers(0, len(ranges), count)
    low, high = (np.array([float(r[k]) for r in ranges]) for k in (0, 1))
    even = rng.uniform(low[range_indices], high[range_indices])[: count - 2 * part]
    ends = np.where(rng.random(part) < 0.5, low[range_indices[:part]], high[range_indices[:part]])
    ends = np.where(rng.random(part) < 0.5, 0.0, ends)
    close = ends + rng.choice([-1.0, 1.0], part) * 10.0 ** rng.uniform(-20, 0, part)
    result = np.concatenate([bits, even.astype(kind), close.astype(kind)])
    return result[np.isfinite(result)]


def applied(name: str, operands: list[np.ndarray], expression: str = "") -> np.ndarray:
    """tg.<name> of the operands in a compiled kernel; or the `expression`, whose operands are a0[i] and
    a1[i]."""
    names = [f"a{i}" for i in range(len(operands))]
    text = "\n".join(
        [
            f"def kernel({''.join(f'{n}: tg.array[T], ' for n in names)}y: tg.array[T]):",
            "    i = tg.tid()",
            f"    y[i] = tg.{name}({expression or ', '.join(f'{n}[i]' for n in names)})",
        ]
    )
    dtype = KINDS[operands[0].dtype.type][0]
    space: dict[str, Any] = {"tg": tg, "T": dtype}
    exec(text, space)
    y = tg.zeros(operands[0].size, dtype=dtype)
    inputs = [tg.array(x, dtype=dtype) for x in operands]
    tg.launch(tg.kernel(source=text + "\n")(space["kernel"]), y.size, inputs=inputs, outputs=[y])
    return y.numpy()


def ulp_error(actual: np.generic, exact: mpf) -> float:
    """|actual - exact| divided by the spacing of the format of `actual` at `exact`; inf if only one of them is a
    number."""
    if not isinstance(exact, mpf) or mpmath.isnan(exact):
        return 0.0 if np.isnan(actual) else np.inf
    info = np.finfo(actual.dtype)
    limit = mpf(2) ** int(info.maxexp)
    if np.isnan(actual):
        return np.inf
    if abs(exact) >= limit:
        return 0.0 if np.isinf(actual) and (actual > 0) == (exact > 0) else np.inf
    value = mpf(float(actual)) if np.isfinite(actual) else limit * (1 if actual > 0 else -1)
    exponent = mpmath.frexp(exact)[1] - 1 if exact else int(info.minexp)
    unit = mpf(2) ** (max(int(exponent), int(info.minexp)) - int(info.nmant))
    return float(abs(value - exact) / unit)


def inverse_error(actual: np.generic, x: mpf) -> float:
    """The error of erfinv in ulp, computed from erf of the result: the error is Newton's step."""
    if abs(x) > 1 or x == 0:
        return ulp_error(actual, mpf(mpmath.nan) if x else x)
    if abs(x) == 1 or not np.isfinite(actual):
        return 0.0 if float(actual) == mpmath.inf * x else np.inf
    y = mpf(float(actual))
    slope = 2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-y * y)
    step = (mpmath.erf(y) - x) / slope
    return ulp_error(actual, y - step)


def measure(name: str, kind: Any, count: int, seed: int = 1) -> tuple[float, list[float]]:
    """The largest error over about `count` arguments, and its arguments."""
    return largest_error(name, operands(name, kind, count, seed))


def operands(name: str, kind: Any, count: int, seed: int = 1) -> list[np.ndarray]:
    """About `count` arguments of a function."""
    case = CASES[name]
    columns = [arguments(case.ranges, kind, count, seed)]
    if name in PERIODIC:
        columns[0] = np.concatenate(
            [columns[0], next_to_quarters(kind, BINADE_STEP if count >= SLOW_COUNT else 10 * BINADE_STEP)]
        )
    if case.second:
        columns.append(arguments(case.second, kind, count, seed + 1))
    length = min(x.size for x in columns)
    return [np.ascontiguousarray(x[:length]) for x in columns]


def largest_error(name: str, operands: list[np.ndarray]) -> tuple[float, list[float]]:
    """The largest error of the function over the given arguments, and its arguments."""
    case, result = CASES[name], applied(name, operands)
    worst, argument = 0.0, [float(x[0]) for x in operands]
    with mp.workprec(PRECISION):
        for i in range(result.size):
            error = _error(name, case, result[i], [float(x[i]) for x in operands])
            if error > worst:
                worst, argument = error, [float(x[i]) for x in operands]
    return worst, argument


def _error(name: str, case: Case, actual: np.generic, numbers: list[float]) -> float:
    exact = [mpf(x) for x in numbers]
    if name == "erfinv":
        return inverse_error(actual, exact[0])
    if _is_settled(name, exact, actual):
        return 0.0
    try:
        result = case.exact(*exact)
    except (ValueError, ZeroDivisionError, OverflowError):
        result = mpmath.nan
    if isinstance(result, mpmath.mpc):
        result = mpmath.nan
    return ulp_error(actual, mpf(result))


def _is_settled(name: str, x: list[mpf], actual: np.generic) -> bool:
    """Whether the result is an infinity, 0 or NaN by definition, which the tables of special values test, or
    multiprecision arithmetic would take long for a result that is too large or too small."""
    if name.startswith("log") and name != "log1p" or name == "rsqrt":
        return x[0] <= 0
    if name == "log1p":
        return x[0] <= -1
    if name in ("exp", "exp2", "exp10", "expm1", "sinh", "cosh") and abs(x[0]) > 1200:
        large = x[0] > 0 or name in ("sinh", "cosh")
        small = -1.0 if name == "expm1" else 0.0
        return bool(np.isinf(actual)) if large else float(actual) == small
    if name in ("erf", "erfc") and abs(x[0]) > 40:
        tail = {"erf": 1.0, "erfc": 0.0 if x[0] > 0 else 2.0}[name]
        return abs(float(actual)) == tail
    if name == "tanh" and abs(x[0]) > 40:
        return abs(float(actual)) == 1.0
    if name == "pow":
        return x[0] <= 0 or abs(x[1] * mpmath.log(x[0])) > 1200
    return False


def sweep(name: str, stride: int) -> tuple[float, float]:
    """The largest error over every `stride`-th float32, against the float64 function, and its argument."""
    worst, argument = 0.0, 0.0
    for x in numbers(stride):
        errors = ulp_errors(applied(name, [x]), applied(name, [x.astype(np.float64)]))
        i = int(np.argmax(errors))
        if errors[i] > worst:
            worst, argument = float(errors[i]), float(x[i])
    return worst, argument


def numbers(stride: int) -> Iterator[np.ndarray]:
    """Every `stride`-th float32 number, in chunks."""
    chunk = stride << 22
    for start in range(0, 2**32, chunk):
        bits = np.arange(start, min(start + chunk, 2**32), stride, dtype=np.uint64).astype(np.uint32)
        x = bits.view(np.float32)
        x = x[np.isfinite(x)]
        if x.size:
            yield x


def ulp_errors(actual: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """`ulp_error` of float32 numbers where float64 is exact enough."""
    limit = 2.0**128
    with np.errstate(all="ignore"):
        value = np.where(np.isinf(actual), np.copysign(limit, actual), actual.astype(np.float64))
        unit = np.ldexp(1.0, np.maximum(np.frexp(exact)[1] - 1, -126) - 23)
        errors = np.abs(value - exact) / unit
        overflow = np.where(np.isinf(actual) & (np.signbit(actual) == np.signbit(exact)), 0.0, np.inf)
        errors = np.where(np.abs(exact) >= limit, overflow, errors)
    missing = np.isnan(actual), np.isnan(exact)
    return np.where(missing[0] | missing[1], np.where(missing[0] & missing[1], 0.0, np.inf), errors)
