"""Infinities, zeros with their signs, NaN, subnormals: as in C. Exact functions against Python's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from measured_errors import applied

import tegula as tg
from support.campaigns import chunks

pytestmark = pytest.mark.machine_code

inf, nan = math.inf, math.nan
KINDS = pytest.mark.parametrize("kind", [np.float32, np.float64])

ONE_ARGUMENT: dict[str, list[tuple[float, float]]] = {
    "exp": [(0.0, 1.0), (-0.0, 1.0), (-inf, 0.0), (inf, inf), (1000.0, inf), (-1000.0, 0.0)],
    "exp2": [(0.0, 1.0), (-inf, 0.0), (inf, inf), (10.0, 1024.0), (-1100.0, 0.0), (-20.0, 2.0**-20)],
    "exp10": [(0.0, 1.0), (-inf, 0.0), (inf, inf), (3.0, 1000.0)],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (-inf, -1.0), (inf, inf), (-100.0, -1.0)],
    "log": [(0.0, -inf), (-0.0, -inf), (1.0, 0.0), (-1.0, nan), (-inf, nan), (inf, inf)],
    "log2": [(0.0, -inf), (1.0, 0.0), (8.0, 3.0), (2.0**-100, -100.0), (-1.0, nan), (inf, inf)],
    "log10": [(0.0, -inf), (1.0, 0.0), (1000.0, 3.0), (-1.0, nan), (inf, inf)],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (-1.0, -inf), (-2.0, nan), (inf, inf), (-inf, nan)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (inf, nan), (-inf, nan)],
    "cos": [(0.0, 1.0), (-0.0, 1.0), (inf, nan), (-inf, nan)],
    "tan": [(0.0, 0.0), (-0.0, -0.0), (inf, nan), (-inf, nan)],
    "asin": [(0.0, 0.0), (-0.0, -0.0), (2.0, nan), (-2.0, nan), (inf, nan)],
    "acos": [(1.0, 0.0), (2.0, nan), (-2.0, nan), (inf, nan)],
    "atan": [(0.0, 0.0), (-0.0, -0.0), (inf, math.pi / 2), (-inf, -math.pi / 2)],
    "sinh": [(0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, -inf), (2000.0, inf)],
    "cosh": [(0.0, 1.0), (inf, inf), (-inf, inf), (-2000.0, inf)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (inf, 1.0), (-inf, -1.0)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (inf, 1.0), (-inf, -1.0)],
    "erfc": [(0.0, 1.0), (-0.0, 1.0), (inf, 0.0), (-inf, 2.0)],
    "erfinv": [(0.0, 0.0), (-0.0, -0.0), (1.0, inf), (-1.0, -inf), (1.5, nan), (-1.5, nan), (inf, nan)],
    "cbrt": [(0.0, 0.0), (-0.0, -0.0), (27.0, 3.0), (-8.0, -2.0), (inf, inf), (-inf, -inf)],
    "rsqrt": [(0.0, inf), (-0.0, -inf), (4.0, 0.5), (inf, 0.0), (-1.0, nan)],
    "round": [(0.5, 1.0), (-0.5, -1.0), (2.5, 3.0), (1.4, 1.0), (-0.2, -0.0), (-0.0, -0.0), (inf, inf)],
    "sign": [(2.0, 1.0), (-2.0, -1.0), (0.0, 1.0), (-0.0, 1.0), (-inf, -1.0)],
    "degrees": [(0.0, 0.0), (math.pi, 180.0), (inf, inf), (-0.0, -0.0)],
    "radians": [(0.0, 0.0), (180.0, math.pi), (-inf, -inf), (-0.0, -0.0)],
}

TWO_ARGUMENTS: dict[str, list[tuple[float, float, float]]] = {
    "pow": [
        *((x, 0.0, 1.0) for x in (0.0, -0.0, inf, -inf, nan, 2.0, -2.0)),
        *((1.0, y, 1.0) for y in (inf, -inf, nan, 3.5, -0.0)),
        *((0.0, 3.0, 0.0), (-0.0, 3.0, -0.0), (-0.0, 2.0, 0.0), (-0.0, 0.5, 0.0)),
        *((0.0, -3.0, inf), (-0.0, -3.0, -inf), (-0.0, -2.0, inf), (0.0, -inf, inf), (0.0, inf, 0.0)),
        *((-1.0, inf, 1.0), (-1.0, -inf, 1.0), (0.5, inf, 0.0), (0.5, -inf, inf), (2.0, inf, inf)),
        *((2.0, -inf, 0.0), (-2.0, inf, inf), (-2.0, -inf, 0.0), (inf, 2.0, inf), (inf, -2.0, 0.0)),
        *((-inf, 3.0, -inf), (-inf, 2.0, inf), (-inf, -3.0, -0.0), (-inf, -2.0, 0.0), (-inf, 0.5, inf)),
        *((-8.0, 3.0, -512.0), (-2.0, -2.0, 0.25), (-8.0, 1.0 / 3.0, nan), (-1.0, 2.5, nan)),
        *((nan, 2.0, nan), (2.0, nan, nan), (2.0, 10000.0, inf), (2.0, -10000.0, 0.0), (-2.0, 10001.0, -inf)),
        *((3.0, 4.0, 81.0), (2.0, -3.0, 0.125), (10.0, 2.0, 100.0)),
    ],
    "atan2": [
        *((0.0, 1.0, 0.0), (-0.0, 1.0, -0.0), (0.0, -1.0, math.pi), (-0.0, -1.0, -math.pi)),
        *((0.0, 0.0, 0.0), (-0.0, 0.0, -0.0), (0.0, -0.0, math.pi), (-0.0, -0.0, -math.pi)),
        *((1.0, 0.0, math.pi / 2), (-1.0, -0.0, -math.pi / 2), (1.0, inf, 0.0), (-1.0, inf, -0.0)),
        *((1.0, -inf, math.pi), (inf, 1.0, math.pi / 2), (-inf, -1.0, -math.pi / 2)),
        *((inf, inf, math.pi / 4), (inf, -inf, 3 * math.pi / 4), (-inf, -inf, -3 * math.pi / 4)),
        *((nan, 1.0, nan), (1.0, nan, nan), (1e38, 1e38, math.pi / 4), (1e-45, 1e-45, math.pi / 4)),
    ],
    "hypot": [
        *((3.0, -4.0, 5.0), (0.0, -0.0, 0.0), (inf, nan, inf), (nan, -inf, inf), (nan, 1.0, nan)),
        *((1e38, 0.0, 1e38), (-inf, 1.0, inf)),
    ],
    "mod": [
        *((5.0, 3.0, 2.0), (-5.0, 3.0, -2.0), (5.0, -3.0, 2.0), (6.0, 3.0, 0.0), (-6.0, 3.0, -0.0)),
        *(
            (inf, 1.0, nan),
            (1.0, 0.0, nan),
            (1.0, inf, 1.0),
            (-0.0, 2.0, -0.0),
            (nan, 1.0, nan),
            (1.0, nan, nan),
        ),
    ],
}


def assert_same(actual: np.ndarray, expected: np.ndarray, arguments: list[Any]) -> None:
    """Equal with signs of zeros, up to the last place; NaN only for NaN."""
    for result, value, argument in zip(actual, expected, arguments, strict=True):
        if np.isnan(value) or np.isnan(result):
            assert np.isnan(value) and np.isnan(result), (argument, result, value)
        else:
            near = result == value or abs(result - value) <= np.spacing(abs(value))
            assert near and np.signbit(result) == np.signbit(value), (argument, result, value)


@KINDS
@pytest.mark.parametrize("name", ONE_ARGUMENT)
def test_functions_of_one_special_value_match_c(name: str, kind: Any) -> None:
    rows = [*ONE_ARGUMENT[name], (nan, nan)]
    x, expected = (np.array(column, np.float64).astype(kind) for column in zip(*rows, strict=True))
    assert_same(applied(name, [x]), expected, rows)


@KINDS
@pytest.mark.parametrize("name", TWO_ARGUMENTS)
def test_functions_of_two_special_values_match_c(name: str, kind: Any) -> None:
    rows = TWO_ARGUMENTS[name]
    x, y, expected = (np.array(column, np.float64).astype(kind) for column in zip(*rows, strict=True))
    assert_same(applied(name, [x, y]), expected, rows)


def remainder_operands(kind: Any, seed: int, count: int) -> list[np.ndarray]:
    """Random bits; exponents with a large difference; multiples; the ends of the range with each other."""
    rng = np.random.default_rng(seed)
    integers, info = {np.float32: np.uint32, np.float64: np.uint64}[kind], np.finfo(kind)
    bits = [rng.integers(0, np.iinfo(integers).max, count, dtype=integers).view(kind) for _ in "xy"]
    near = [(rng.standard_normal(count) * scale).astype(kind) for scale in (100.0, 3.0)]
    small = info.smallest_subnormal * np.floor(2.0 ** rng.uniform(0, info.nmant + 3, count)).astype(kind)
    large = info.max * rng.uniform(0.01, 1, count).astype(kind)
    divisor = (rng.integers(1, 99, count) * 2.0 ** rng.integers(-60, 60, count)).astype(kind)
    multiple = (divisor.astype(np.float64) * rng.integers(-(2**15), 2**15, count)).astype(kind)
    ends = [
        0.0,
        info.smallest_subnormal,
        info.tiny,
        1.0,
        1.5,
        2.0,
        info.max,
        np.inf,
        np.nan,
        np.nextafter(info.max, kind(0)),
    ]
    ends = np.array([*ends, *(-x for x in ends), np.nextafter(info.tiny, kind(0))], kind)
    x = [bits[0], near[0], large, small, multiple, np.repeat(ends, ends.size)]
    y = [bits[1], near[1], small, large, divisor, np.tile(ends, ends.size)]
    return [np.concatenate(x), np.concatenate(y)]


def expect_remainders(kind: Any, seed: int, count: int) -> None:
    x, y = remainder_operands(kind, seed, count)
    with np.errstate(all="ignore"):
        expected = np.fmod(x, y)
    result = applied("mod", [x, y])
    np.testing.assert_array_equal(result, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(result)[numbers], np.signbit(expected)[numbers])


@KINDS
def test_float_remainders_are_exact(kind: Any) -> None:
    expect_remainders(kind, 5, 1500)


@KINDS
@pytest.mark.parametrize("seed", chunks(range(10)))
def test_many_remainders_are_exact(kind: Any, seed: int) -> None:
    expect_remainders(kind, seed, 100_000)


@pytest.mark.parametrize("dtype", [tg.float16, tg.bfloat16], ids=str)
def test_short_remainders_are_exact(dtype: Any) -> None:
    """float32 remainders need no rounding."""

    @tg.kernel
    def remainders(x: tg.array[Any], y: tg.array[Any], z: tg.array[Any]):
        i = tg.tid()
        z[i] = x[i] % y[i]

    kind = tg.zeros(1, dtype=dtype).numpy().dtype
    bits = np.random.default_rng(3).integers(0, 65536, (2, 20_000)).astype(np.uint16).view(kind)
    x, y = (tg.array(np.ascontiguousarray(v)) for v in bits)
    z = tg.zeros(20_000, dtype=dtype)
    tg.launch(remainders, z.size, inputs=[x, y], outputs=[z])
    with np.errstate(all="ignore"):
        expected = np.fmod(*(v.astype(np.float32) for v in bits))
    actual = z.numpy().astype(np.float32)
    np.testing.assert_array_equal(actual, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(actual)[numbers], np.signbit(expected)[numbers])


@KINDS
@pytest.mark.parametrize(
    "name", ["exp", "exp2", "sin", "tan", "expm1", "log1p", "asin", "atan", "tanh", "erf", "cbrt"]
)
def test_subnormal_arguments_and_results(name: str, kind: Any) -> None:
    """Functions with derivative 1 at 0 return subnormal arguments; tests of accuracy measure the others."""
    tiny = np.finfo(kind).smallest_subnormal * np.array([1, -1, 2, 3, 1000, -54321], kind)
    actual = applied(name, [tiny])
    if name in ("exp", "exp2"):
        expected = np.ones_like(tiny)
    elif name == "erf":
        expected = (tiny.astype(np.longdouble) * np.longdouble(2 / math.sqrt(math.pi))).astype(kind)
    elif name == "cbrt":
        expected = np.cbrt(tiny.astype(np.float64)).astype(kind)
    else:
        expected = tiny
    assert_same(actual, expected, list(tiny))
