"""The section "Scalars" of the semantics: every operation on corner values, bit for bit; one test per line."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from agreement import agree, assert_same_bits

import tegula as tg

pytestmark = pytest.mark.machine_code

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
DTYPES = (*SIGNED, *UNSIGNED, *FLOATS)

ARITHMETIC = (
    "x + y",
    "x - y",
    "x * y",
    "x / y",
    "x // y",
    "x % y",
    "tg.min(x, y)",
    "tg.max(x, y)",
    "-x",
    "tg.abs(x)",
)
BITS = ("x & y", "x | y", "x ^ y", "~x", "x << y", "x >> y")
BITS += ("tg.clz(x)", "tg.brev(x)", "tg.ctz(x)")
ROUNDING = ("tg.sqrt(x)", "tg.floor(x)", "tg.ceil(x)", "tg.trunc(x)", "tg.rint(x)")
ROUNDING += ("tg.fma(x, y, x)", "tg.copysign(x, y)", "tg.diff_of_products(x, y, y, x + y)")
COMPARISONS = ("x < y", "x <= y", "x == y", "x != y", "x > y", "x >= y")


def numpy_type(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name) if name.startswith(("bf", "float8")) else name)


@cache
def corners(name: str) -> np.ndarray:
    """Special values, and a few ordinary values."""
    dtype = numpy_type(name)
    if name in FLOATS:
        info = ml_dtypes.finfo(dtype)
        special = [0.0, -0.0, 1.0, -1.0, 1.5, 2.5, -2.5, 3.0, 0.1, -7.3]
        special += [np.inf, -np.inf, np.nan, 127.5, -129.0, 70000.0]
        edges = [
            info.max,
            -info.max,
            info.tiny,
            -info.tiny,
            info.smallest_subnormal,
            3 * info.smallest_subnormal,
        ]
        out_of_range = [2.0**31, -(2.0**31), 2.0**63, 2.0**64, 2.0**24 + 1, 1 + info.eps]
        with np.errstate(over="ignore"):
            return np.array([*special, *map(float, edges), *out_of_range]).astype(dtype)
    info = np.iinfo(dtype)
    small = [0, 1, 2, 3, 7, 8, 15, 31, 32, 63, 64, 100]
    values = {*small, *(-v for v in small), info.min, info.min + 1, info.max, info.max - 1, info.max // 2}
    return np.array(sorted(v for v in values if info.min <= v <= info.max), dtype)


def operand_pairs(name: str) -> tuple[np.ndarray, np.ndarray]:
    values = corners(name)
    return np.repeat(values, len(values)), np.tile(values, len(values))


def evaluate(name: str, expressions: tuple[str, ...], result: str, tile: bool = False) -> list[np.ndarray]:
    """The results of each expression for all pairs of corners, which must be equal in the interpreter and on the
    CPU."""
    x, y = operand_pairs(name)
    lines = ["    i = tg.tid()", "    x = a[i]", "    y = b[i]"]
    lines += [f"    o[{k}, i] = {e}" for k, e in enumerate(expressions)]
    if tile:
        n = len(x)
        lines = [f"    x = tg.tile_load(a, shape={n})", f"    y = tg.tile_load(b, shape={n})"]
        lines += [f"    tg.tile_store(o[{k}], {e})" for k, e in enumerate(expressions)]
    head = f"def kernel(a: tg.array[tg.{name}], b: tg.array[tg.{name}], o: tg.array2d[tg.{result}]):"
    text = "\n".join([head, *lines]) + "\n"
    space: dict[str, Any] = {"tg": tg}
    exec(text, space)
    kernel = tg.kernel(source=text)(space["kernel"])
    arguments = [tg.array(x, dtype=getattr(tg, name)), tg.array(y, dtype=getattr(tg, name))]
    arguments.append(tg.zeros((len(expressions), len(x)), dtype=getattr(tg, result)))
    return list(agree(kernel, arguments, 1 if tile else len(x), 64, tiled=tile)[2])


@pytest.mark.parametrize("tile", [False, True], ids=["lanes", "tile"])
@pytest.mark.parametrize("name", DTYPES)
def test_arithmetic_is_bit_equal(name: str, tile: bool) -> None:
    evaluate(name, ARITHMETIC, name, tile)
    evaluate(name, BITS if name not in FLOATS else ROUNDING, name, tile)
    evaluate(name, COMPARISONS, "bool", tile)


@pytest.mark.parametrize("name", (*SIGNED, *UNSIGNED))
def test_integers_wrap(name: str) -> None:
    x, y = operand_pairs(name)
    plus, minus, times = evaluate(name, ("x + y", "x - y", "x * y"), name)
    with np.errstate(all="ignore"):
        for actual, expected in ((plus, x + y), (minus, x - y), (times, x * y)):
            np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("name", (*SIGNED, *UNSIGNED))
def test_integer_division_truncates_floors_and_divides_by_zero_as_stated(name: str) -> None:
    """`/` truncates, `//` floors, `%` truncates, and division by zero gives 0."""
    x, y = operand_pairs(name)
    quotient, floor, rest = evaluate(name, ("x / y", "x // y", "x % y"), name)
    dtype = numpy_type(name)
    for k, (a, b) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        truncated = 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        expected = [truncated, 0 if b == 0 else a // b, 0 if b == 0 else a - b * truncated]
        width = dtype.itemsize * 8
        actual = [int(quotient[k]) % 2**width, int(floor[k]) % 2**width, int(rest[k]) % 2**width]
        assert actual == [w % 2**width for w in expected], (a, b)


@pytest.mark.parametrize("name", (*SIGNED, *UNSIGNED))
def test_shifts_by_the_width_or_more_match_the_semantics(name: str) -> None:
    x, y = operand_pairs(name)
    left, right = evaluate(name, ("x << y", "x >> y"), name)
    width = numpy_type(name).itemsize * 8
    for k, (a, b) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        if b >= width:
            assert left[k] == 0 and right[k] == (-1 if a < 0 else 0), (a, b)
        elif b >= 0:
            assert int(left[k]) % 2**width == (a << b) % 2**width and right[k] == a >> b, (a, b)


@pytest.mark.parametrize("name", (*SIGNED, *UNSIGNED))
def test_bits_are_counted_and_reversed(name: str) -> None:
    x, _ = operand_pairs(name)
    (count,) = evaluate(name, ("tg.bit_count(x)",), "int32")
    zeros, reverse, low = evaluate(name, ("tg.clz(x)", "tg.brev(x)", "tg.ctz(x)"), name)
    width = numpy_type(name).itemsize * 8
    for k, a in enumerate(x.tolist()):
        bits = f"{a % 2**width:0{width}b}"
        assert count[k] == bits.count("1") and zeros[k] == width - len(bits.lstrip("0")), a
        assert int(reverse[k]) % 2**width == int(bits[::-1], 2), a
        assert low[k] == width - len(bits.rstrip("0")), a


@pytest.mark.parametrize("target", (*SIGNED, *UNSIGNED))
@pytest.mark.parametrize("name", FLOATS)
def test_float_to_integer_truncates_and_saturates(name: str, target: str) -> None:
    x, _ = operand_pairs(name)
    (actual,) = evaluate(name, (f"tg.{target}(x)",), target)
    info = np.iinfo(target)
    for a, b in zip(x.astype(np.float64).tolist(), actual.tolist(), strict=True):
        expected = 0 if np.isnan(a) else info.max if a >= info.max else info.min if a <= info.min else int(a)
        assert b == expected, a


@pytest.mark.parametrize("target", (*DTYPES, "float8_e4m3", "float8_e5m2", "bool"))
def test_conversions_are_bit_equal(target: str) -> None:
    for name in DTYPES:
        evaluate(name, (f"tg.{target}(x)",), target)


@pytest.mark.parametrize("name", FLOATS)
def test_min_and_max_of_nan_and_zeros_match_the_semantics(name: str) -> None:
    x, y = operand_pairs(name)
    low, high = evaluate(name, ("tg.min(x, y)", "tg.max(x, y)"), name)
    a, b, low, high = (v.astype(np.float64) for v in (x, y, low, high))
    np.testing.assert_array_equal(low, np.fmin(a, b))
    np.testing.assert_array_equal(high, np.fmax(a, b))
    zeros = (a == 0) & (b == 0)
    np.testing.assert_array_equal(np.signbit(low[zeros]), np.signbit(a[zeros]) | np.signbit(b[zeros]))
    np.testing.assert_array_equal(np.signbit(high[zeros]), np.signbit(a[zeros]) & np.signbit(b[zeros]))


@pytest.mark.parametrize("name", FLOATS)
def test_each_operation_is_rounded_once(name: str) -> None:
    """float16 and bfloat16: the float32 operation, rounded; float32 and float64: IEEE."""
    x, y = operand_pairs(name)
    wide_dtype = np.float64 if name == "float64" else np.float32
    a, b = x.astype(wide_dtype), y.astype(wide_dtype)
    with np.errstate(all="ignore"):
        expected_results = [a + b, a - b, a * b, a / b, np.sqrt(a)]
        expected_results = [w.astype(x.dtype) for w in expected_results]
    for actual, expected in zip(
        evaluate(name, ("x + y", "x - y", "x * y", "x / y", "tg.sqrt(x)"), name),
        expected_results,
        strict=True,
    ):
        assert_same_bits(actual, expected)


@pytest.mark.parametrize("name", FLOATS)
def test_subnormals_are_not_flushed(name: str) -> None:
    info = ml_dtypes.finfo(numpy_type(name))
    tiny = corners(name)[[20, 21]]
    assert (tiny.astype(np.float64) != 0).all()
    x, _ = operand_pairs(name)
    (doubled,) = evaluate(name, ("x + x",), name)
    indices = np.flatnonzero(x == tiny[0])[0]
    assert float(doubled[indices]) == 2 * float(info.smallest_subnormal)


def test_conversion_to_bfloat16_keeps_subnormals() -> None:
    values = np.array([2.0**-130, -(2.0**-133), 2.0**-127, 3 * 2.0**-133], np.float32)
    space: dict[str, Any] = {"tg": tg}
    text = "def kernel(a: tg.array[float], o: tg.array[tg.bfloat16]):\n    i = tg.tid()\n    o[i] = tg.bfloat16(a[i])\n"
    exec(text, space)
    kernel = tg.kernel(source=text)(space["kernel"])
    _, actual = agree(kernel, [tg.array(values), tg.zeros(4, dtype=tg.bfloat16)], 4, 4)
    assert_same_bits(actual, values.astype(ml_dtypes.bfloat16))
    assert (actual.astype(np.float32) != 0).all()


def multiply_subtract_kernel(name: str) -> Any:
    """A kernel that subtracts the first value from a multiplication, in lane code and in a function mapped over a
    tile."""
    function = f"def f(x: tg.{name}, y: tg.{name}):\n    return x * x - y\n"
    text = (
        f"def kernel(a: tg.array[tg.{name}], o: tg.array2d[tg.{name}]):\n"
        "    i = tg.tid()\n    o[0, i] = a[i] * a[i] - a[0]\n"
        "    t = tg.tile_load(a, shape=4)\n"
        "    tg.tile_store(o[1], tg.tile_map(f, t, a[0]))\n"
        "    tg.tile_store(o[2], t * t - a[0])\n"
    )
    space: dict[str, Any] = {"tg": tg}
    exec(function, space)
    space["f"] = tg.func(source=function)(space["f"])
    exec(text, space)
    return tg.kernel(source=text)(space["kernel"])


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_multiplications_in_sums_are_contracted(name: str) -> None:
    """A multiplication with a subtraction becomes one fma, in lane code, mapped functions and tiles."""
    values = np.array([1.1, 2.3, 0.7, 3.3]).astype(name)
    out = tg.zeros((3, 4), dtype=getattr(tg, name))
    kernel = multiply_subtract_kernel(name)
    tg.launch(kernel, 4, inputs=[tg.array(values), out], block_dim=4)
    assert "fma" not in kernel.ir() and any("fma" in text for text in kernel.stages().values())
    exact = [float(Fraction(float(v)) ** 2 - Fraction(float(values[0]))) for v in values]
    for row in out.numpy():
        np.testing.assert_array_equal(row, np.array(exact).astype(name))


@tg.kernel
def differences(a, o):
    """Subtract rounded products, of numbers and of tiles."""
    i = tg.tid()
    o[0, i] = tg.diff_of_products(a[0, i], a[1, i], a[2, i], a[3, i])
    p, q = tg.tile_load(a[0], shape=64), tg.tile_load(a[1], shape=64)
    tg.tile_store(o[1], tg.diff_of_products(p, q, tg.tile_load(a[2], shape=64), tg.tile_load(a[3], shape=64)))
    tg.tile_store(o[2], tg.diff_of_products(p, q, q, 2.5))


@pytest.mark.parametrize("name", FLOATS)
def test_differences_of_rounded_products_are_bit_equal(name: str) -> None:
    values = np.random.default_rng(3).standard_normal((4, 64)).astype(numpy_type(name))
    values[2:, ::2] = values[:2, ::2]
    wide_dtype = np.float64 if name == "float64" else np.float32
    a, b, c, d = values.astype(wide_dtype)

    def rounded(x: np.ndarray) -> np.ndarray:
        return x.astype(values.dtype).astype(wide_dtype)

    dtype = getattr(tg, name)
    arguments = [tg.array(values, dtype=dtype), tg.zeros((3, 64), dtype=dtype)]
    actual = agree(differences, arguments, 64, 64)[1]
    expected = rounded(rounded(a * b) - rounded(c * d))
    for k in range(2):
        np.testing.assert_array_equal(actual[k].astype(wide_dtype), expected)
        assert not actual[k][::2].any()
    np.testing.assert_array_equal(
        actual[2].astype(wide_dtype), rounded(rounded(a * b) - rounded(b * wide_dtype(2.5)))
    )


@tg.kernel
def literal_factor(a: tg.array[float], o: tg.array2d[float]):
    i = tg.tid()
    o[0, i] = a[i] * 2.7 - a[0]
    t = tg.tile_load(a, shape=4)
    tg.tile_store(o[1], t * 2.7 - a[0])
    tg.tile_store(o[2], 2.7 * t - a[0])


def test_a_tile_of_products_by_a_literal_is_fused_like_numbers() -> None:
    values = np.array([1.1, 2.3, 0.7, 3.3]).astype(np.float32)
    out = tg.zeros((3, 4))
    tg.launch(literal_factor, 4, inputs=[tg.array(values), out], block_dim=4)
    factor = Fraction(float(np.float32(2.7)))
    exact = [float(Fraction(float(v)) * factor - Fraction(float(values[0]))) for v in values]
    for row in out.numpy():
        np.testing.assert_array_equal(row, np.array(exact).astype(np.float32))


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_16_bit_floats_are_not_contracted(name: str) -> None:
    values = np.array([1.1, 2.3, 0.7, 3.3]).astype(numpy_type(name))
    _, out = agree(
        multiply_subtract_kernel(name), [tg.array(values), tg.zeros((3, 4), dtype=getattr(tg, name))], 4, 4
    )
    wide = values.astype(np.float32)
    product = (wide * wide).astype(values.dtype).astype(np.float32)
    for row in out:
        assert_same_bits(row, (product - wide[0]).astype(values.dtype))


@tg.kernel
def reductions(x: tg.array2d[float], o: tg.array2d[float], p: tg.array2d[float]):
    t = tg.tile_load(x, shape=(16, 16))
    tg.tile_store(o[0], tg.tile_sum(t))
    tg.tile_store(o[1], tg.tile_sum(t, axis=0))
    tg.tile_store(o[2], tg.tile_sum(t, axis=1))
    tg.tile_store(p, t @ tg.tile_transpose(t))


@pytest.mark.parametrize("block_dim", [1, 32, 100])
def test_sums_and_products_of_exact_data_have_the_same_bits(block_dim: int) -> None:
    x = np.random.default_rng(2).integers(-8, 9, (16, 16)).astype(np.float32)
    arguments = [tg.array(x), tg.zeros((3, 16)), tg.zeros((16, 16))]
    _, o, p = agree(reductions, arguments, 1, block_dim, tiled=True)
    assert o[0, 0] == x.sum()
    np.testing.assert_array_equal(o[1:], [x.sum(0), x.sum(1)])
    np.testing.assert_array_equal(p, x @ x.T)


def test_sums_are_deterministic_per_compiled_kernel() -> None:
    x = tg.array(np.random.default_rng(3).random((16, 16), dtype=np.float32))
    runs = []
    for _ in range(3):
        o, p = tg.zeros((3, 16)), tg.zeros((16, 16))
        tg.launch_tiled(reductions, dim=1, inputs=[x, o, p], block_dim=32)
        runs.append((o.numpy().tobytes(), p.numpy().tobytes()))
    assert runs[0] == runs[1] == runs[2]
