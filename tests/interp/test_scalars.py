"""Corner cases of arithmetic, as the section "Scalars" of the semantics defines them."""

import math
import warnings
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_builder import KernelBuilder

from tegula.ir import REGISTRY
from tegula.ops.base import Elementwise
from tegula.types import (
    DTYPES,
    ArrayType,
    DType,
    MatType,
    VecType,
    bfloat16,
    bool_,
    float8_e4m3,
    float8_e5m2,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    to_numpy,
    uint8,
    uint16,
    uint32,
    uint64,
)

INF, NAN = math.inf, math.nan
INTEGERS = [int8, int16, int32, int64, uint8, uint16, uint32, uint64]
FLOATS = [float16, bfloat16, float32, float64]


def evaluate(name: str, t: DType, *columns: list, **attrs) -> np.ndarray:
    """The results of an op on each row of the columns, one lane each."""
    n = len(columns[0])
    m = KernelBuilder(*([ArrayType(t, 1)] * len(columns)), block_dim=n)
    i = m.tid()
    out = m(name, *(m("array.load", p, i) for p in m.params), **attrs)
    maker = KernelBuilder(*([ArrayType(t, 1)] * len(columns)), ArrayType(out.type, 1), block_dim=n)
    i = maker.tid()
    *inputs, target = maker.params
    maker("array.store", target, maker(name, *(maker("array.load", p, i) for p in inputs), **attrs), i)
    result = np.zeros(n, to_numpy(out.type))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        maker.run(*(np.array(c, to_numpy(t)) for c in columns), result)
    return result


def same_floats(actual: np.ndarray, expected: list) -> None:
    """Raise AssertionError unless floats are equal, with -0 and 0 distinguished; all NaNs are equal."""
    for a, w in zip(actual.astype(np.float64).tolist(), expected, strict=True):
        assert (math.isnan(a) and math.isnan(w)) or (a == w and math.copysign(1, a) == math.copysign(1, w)), (
            a,
            w,
        )


def limits(t: DType) -> tuple[int, int]:
    info = np.iinfo(to_numpy(t))
    return int(info.min), int(info.max)


def wrap(value: int, t: DType) -> int:
    low = limits(t)[0]
    return (value - low) % (1 << t.bits) + low


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else 0


def shift_left(a: int, b: int, t: DType) -> int:
    return a << b if 0 <= b < t.bits else 0


def shift_right(a: int, b: int, t: DType) -> int:
    return a >> b if 0 <= b < t.bits else -1 if a < 0 else 0


EXACT = {
    "add": lambda a, b, t: a + b,
    "sub": lambda a, b, t: a - b,
    "mul": lambda a, b, t: a * b,
    "div": lambda a, b, t: truncated(a, b),
    "floordiv": lambda a, b, t: a // b if b else 0,
    "mod": lambda a, b, t: a - truncated(a, b) * b if b else 0,
    "min": lambda a, b, t: min(a, b),
    "max": lambda a, b, t: max(a, b),
    "and": lambda a, b, t: a & b,
    "or": lambda a, b, t: a | b,
    "xor": lambda a, b, t: a ^ b,
    "shl": shift_left,
    "shr": shift_right,
}


@pytest.mark.parametrize("t", INTEGERS, ids=str)
@pytest.mark.parametrize("name", EXACT)
def test_integers_agree_with_wrapped_python_integers(name, t):
    low, high = limits(t)
    corners = sorted(
        {low, low + 1, wrap(-1, t), 0, 1, 2, 3, 7, t.bits - 1, t.bits, high // 2, high - 1, high}
    )
    a = [x for x in corners for _ in corners]
    b = [x for _ in corners for x in corners]
    expected = [wrap(EXACT[name](x, y, t), t) for x, y in zip(a, b, strict=True)]
    assert evaluate(name, t, a, b).tolist() == expected


@pytest.mark.parametrize("t", INTEGERS, ids=str)
def test_unary_ops_of_integers_wrap(t):
    low, high = limits(t)
    a = [low, low + 1, 0, 1, high]
    assert evaluate("neg", t, a).tolist() == [wrap(-x, t) for x in a]
    assert evaluate("abs", t, a).tolist() == [wrap(abs(x), t) for x in a]
    assert evaluate("not", t, a).tolist() == [wrap(~x, t) for x in a]


def test_logical_ops_of_bools_match_truth_tables():
    a, b = [False, False, True, True], [False, True, False, True]
    assert evaluate("and", bool_, a, b).tolist() == [False, False, False, True]
    assert evaluate("or", bool_, a, b).tolist() == [False, True, True, True]
    assert evaluate("xor", bool_, a, b).tolist() == [False, True, True, False]
    assert evaluate("not", bool_, a).tolist() == [True, True, False, False]
    assert evaluate("min", bool_, a, b).tolist() == [False, False, False, True]
    assert evaluate("max", bool_, a, b).tolist() == [False, True, True, True]
    assert evaluate("cmp", bool_, a, b, pred="lt").tolist() == [False, True, False, False]


@pytest.mark.parametrize("t", FLOATS, ids=str)
def test_min_and_max_drop_nan_and_order_zeros(t):
    a = [NAN, 1.0, NAN, -0.0, 0.0, -INF, 2.0]
    b = [1.0, NAN, NAN, 0.0, -0.0, INF, -2.0]
    same_floats(evaluate("min", t, a, b), [1.0, 1.0, NAN, -0.0, -0.0, -INF, -2.0])
    same_floats(evaluate("max", t, a, b), [1.0, 1.0, NAN, 0.0, 0.0, INF, 2.0])


@pytest.mark.parametrize("t", FLOATS, ids=str)
def test_float_ops_on_corner_values_follow_ieee(t):
    same_floats(
        evaluate("div", t, [1.0, -1.0, 0.0, INF, 1.0], [0.0, 0.0, 0.0, INF, -INF]),
        [INF, -INF, NAN, NAN, -0.0],
    )
    same_floats(evaluate("floordiv", t, [7.0, -7.0, 1.0, -0.0], [2.0, 2.0, 0.0, 1.0]), [3.0, -4.0, INF, -0.0])
    same_floats(evaluate("sqrt", t, [4.0, -0.0, -1.0, INF]), [2.0, -0.0, NAN, INF])
    if t.bits <= 32:
        same_floats(evaluate("fast.exp2", t, [3.0, 0.0, NAN, -INF]), [8.0, 1.0, NAN, 0.0])
    same_floats(evaluate("rint", t, [0.5, 1.5, -0.5, 2.5, NAN]), [0.0, 2.0, -0.0, 2.0, NAN])
    same_floats(evaluate("floor", t, [-0.5, 0.5, -0.0, INF]), [-1.0, 0.0, -0.0, INF])
    same_floats(evaluate("ceil", t, [-0.5, 0.5, -0.0, -INF]), [-0.0, 1.0, -0.0, -INF])
    same_floats(evaluate("trunc", t, [-1.5, 1.5, -0.5]), [-1.0, 1.0, -0.0])
    same_floats(
        evaluate("copysign", t, [1.0, -2.0, 0.0, INF], [-0.0, 0.0, -1.0, -1.0]), [-1.0, 2.0, -0.0, -INF]
    )
    same_floats(evaluate("neg", t, [0.0, -0.0, NAN, INF]), [-0.0, 0.0, NAN, -INF])
    same_floats(evaluate("abs", t, [-0.0, -INF, NAN]), [0.0, INF, NAN])
    same_floats(evaluate("add", t, [INF, -0.0, -0.0], [-INF, -0.0, 0.0]), [NAN, -0.0, 0.0])
    same_floats(evaluate("fma", t, [INF, 1.0, -1.0], [0.0, 2.0, 2.0], [1.0, 3.0, 2.0]), [NAN, 5.0, 0.0])


@pytest.mark.parametrize("t", FLOATS, ids=str)
def test_comparisons_with_nan_are_false_except_ne(t):
    a, b = [1.0, NAN, NAN, -0.0, 2.0], [NAN, 1.0, NAN, 0.0, 1.0]
    expected = {
        "eq": [0, 0, 0, 1, 0],
        "ne": [1, 1, 1, 0, 1],
        "lt": [0] * 5,
        "le": [0, 0, 0, 1, 0],
        "gt": [0, 0, 0, 0, 1],
        "ge": [0, 0, 0, 1, 1],
    }
    for pred, truth in expected.items():
        assert evaluate("cmp", t, a, b, pred=pred).tolist() == [bool(w) for w in truth]
    for test, truth in {"isnan": [0, 0, 1], "isinf": [0, 1, 0], "isfinite": [1, 0, 0]}.items():
        assert evaluate("classify", t, [1.0, -INF, NAN], test=test).tolist() == [bool(w) for w in truth]
    above = evaluate("never_above", t, [1.0, 2.0, -INF, INF, NAN, 1.0], [1.0, 1.0, 0.0, 0.0, 0.0, NAN])
    assert above.tolist() == [True, False, True, False, True, True]


@pytest.mark.parametrize("t", FLOATS, ids=str)
def test_subnormal_floats_are_not_flushed(t):
    tiny = float(ml_dtypes.finfo(to_numpy(t)).smallest_subnormal)
    same_floats(evaluate("add", t, [tiny, tiny], [tiny, -tiny]), [2 * tiny, 0.0])
    same_floats(evaluate("mul", t, [tiny, tiny], [3.0, 0.25]), [3 * tiny, 0.0])
    same_floats(evaluate("fma", t, [tiny], [1.0], [tiny]), [2 * tiny])


@pytest.mark.parametrize("t", [float16, bfloat16], ids=str)
def test_narrow_floats_round_the_float32_result_once(t):
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(200).astype(to_numpy(t)) for _ in range(2))
    x, y = a.astype(np.float32), b.astype(np.float32)
    for name, expected in {"add": x + y, "sub": x - y, "mul": x * y, "div": x / y}.items():
        assert (evaluate(name, t, a, b) == expected.astype(to_numpy(t))).all()


numbers = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(st.lists(st.tuples(numbers, numbers, numbers), min_size=8, max_size=8))
@settings(deadline=None, max_examples=50)
def test_fma_rounds_once(rows):
    a, b, c = zip(*rows, strict=True)
    for t, smallest in ((float32, -149), (float64, -1074)):
        out = evaluate("fma", t, a, b, c).tolist()
        for x, y, z, actual in zip(a, b, c, out, strict=True):
            exact = Fraction(x) * Fraction(y) + Fraction(z)
            if math.isinf(actual):
                assert abs(exact) >= Fraction(2) ** (128 if t is float32 else 1024) * Fraction(1 - 2.0**-25)
                continue
            digits = 24 if t is float32 else 53
            size = math.frexp(abs(actual))[1] if actual else smallest
            half_ulp = Fraction(2) ** (max(size - digits, smallest) - 1)
            assert abs(exact - Fraction(actual)) <= half_ulp


def test_fma_matches_exact_arithmetic_where_two_roundings_differ():
    # The product is 2^-60: it decides the rounding of 1 + 2^-24, which is the midpoint of two neighbours.
    out = evaluate("fma", float32, [2.0**-30, -(2.0**-30)], [2.0**-30] * 2, [1 + 2.0**-23] * 2)
    same_floats(out, [1 + 2.0**-23] * 2)
    halfway, tiny = 1 + 2.0**-12, 2.0**-40
    # (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24 is almost a tie in float32; the small term decides the rounding.
    same_floats(
        evaluate("fma", float32, [halfway] * 2, [halfway] * 2, [tiny, -tiny]),
        [1 + 2.0**-11 + 2.0**-23, 1 + 2.0**-11],
    )
    big = 2.0**60
    out = evaluate("fma", float64, [1 + 2.0**-30, big], [1 - 2.0**-30, big], [-1.0, 1.0])
    same_floats(out, [-(2.0**-60), 2.0**120])


# Conversions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("t", INTEGERS, ids=str)
@pytest.mark.parametrize("source", FLOATS, ids=str)
def test_floats_to_integers_truncate_saturate_and_drop_nan(source, t):
    low, high = limits(t)
    values = [1.75, -1.75, NAN, INF, -INF, 0.0, -0.0]
    expected = [1, -1 if low else 0, 0, high, low, 0, 0]
    assert evaluate("cast", source, values, to=t).tolist() == expected


def test_integers_wrap_when_narrowed():
    assert evaluate("cast", int32, [300, -1, 1 << 16], to=uint8).tolist() == [44, 255, 0]
    assert evaluate("cast", uint64, [(1 << 64) - 1], to=int32).tolist() == [-1]
    assert evaluate("cast", int8, [-1], to=uint64).tolist() == [(1 << 64) - 1]


def test_conversions_between_floats_round_to_even_once():
    # A rounding to float32 first would give a tie, which rounds down to even.
    above_tie = 1 + 2.0**-8 + 2.0**-40
    assert float(evaluate("cast", float64, [above_tie], to=bfloat16)[0]) == 1 + 2.0**-7
    assert float(evaluate("cast", float64, [1 + 2.0**-11 + 2.0**-40], to=float16)[0]) == 1 + 2.0**-10
    assert float(evaluate("cast", float32, [1 + 2.0**-8], to=bfloat16)[0]) == 1
    tiny = 2.0**-133
    assert float(evaluate("cast", float32, [tiny], to=bfloat16)[0]) == tiny
    same_floats(evaluate("cast", float32, [NAN, -0.0, 1e9], to=float16), [NAN, -0.0, INF])
    same_floats(evaluate("cast", float32, [1e9, -INF], to=float8_e5m2), [INF, -INF])
    assert np.isnan(evaluate("cast", float32, [NAN], to=float8_e4m3).astype(np.float32)[0])


def test_every_type_converts_to_bool_and_back():
    assert evaluate("cast", float32, [0.0, -0.0, NAN, 0.5], to=bool_).tolist() == [False, False, True, True]
    assert evaluate("cast", int64, [0, 1 << 40], to=bool_).tolist() == [False, True]
    assert evaluate("cast", bool_, [False, True], to=bfloat16).astype(float).tolist() == [0, 1]


@pytest.mark.parametrize("t", DTYPES.values(), ids=str)
def test_every_type_converts_to_every_other(t):
    for to in DTYPES.values():
        assert evaluate("cast", t, [0, 1], to=to).astype(np.float64).tolist() == [0, 1]


@pytest.mark.parametrize("t", [int8, uint8, int16, uint16, int32, uint32, int64, uint64])
def test_bit_ops_match_binary_text(t: DType):
    low, high = limits(t)
    values = [low, high, 0, 1, high // 3, low + 5]
    texts = [format(x % (1 << t.bits), f"0{t.bits}b") for x in values]
    assert evaluate("bit_count", t, values).tolist() == [x.count("1") for x in texts]
    assert evaluate("clz", t, values).tolist() == [len(x) - len(x.lstrip("0")) for x in texts]
    assert evaluate("brev", t, values).tolist() == [wrap(int(x[::-1], 2), t) for x in texts]


def test_bitcasts_keep_the_bits():
    assert evaluate("bitcast", float32, [1.0, -0.0], to=uint32).tolist() == [0x3F800000, 0x80000000]
    assert evaluate("bitcast", int16, [0x3F80], to=bfloat16).astype(float).tolist() == [1.0]


# Vectors --------------------------------------------------------------------------------------------------------------


def test_vectors_are_built_and_components_extracted():
    v = VecType(3, int32)
    m = KernelBuilder()
    i = m.tid()
    result = m("vec.make", i, m.const(7), m("neg", i), type=v)
    for k in (0, 2, 3, -1):
        m("print", m("vec.extract", result, m.const(k)), parts=(f"{k}: ", None))
        m("print", m("vec.insert", result, m.const(9), m.const(k)), parts=(None,))
    m("print", m("vec.extract", result, m("and", i, m.const(1))), parts=(None,))
    lines = m.run(lanes=2)
    assert lines[1::2][:8] == [
        "0: 1",
        "[9, 7, -1]",
        "2: -1",
        "[1, 7, 9]",
        "3: -1",
        "[1, 7, -1]",
        "-1: -1",
        "[1, 7, -1]",
    ]
    assert lines[-2:] == ["0", "7"]


def test_matrix_ops_are_component_by_component():
    t = MatType(2, 2, float32)
    m = KernelBuilder()
    a = m.const(((1.0, 2.0), (3.0, 4.0)), t)
    b = m("vec.splat", m.f(2.0), type=t)
    total = m("add", m("mul", a, b), a)
    mask = m.cmp("gt", total, m("vec.splat", m.f(6.0), type=t))
    m("print", m("select", mask, total, b), parts=(None,))
    m("print", m("vec.insert", a, m.f(0.0), m.const(1), m.const(0)), parts=(None,))
    m("print", m("vec.extract", a, m.const(1), m.const(0)), parts=(None,))
    m("print", m("select", m.cmp("lt", m.tid(), m.const(1)), a, b), parts=(None,))
    lines = ["[[2.0, 2.0], [9.0, 12.0]]", "[[1.0, 2.0], [0.0, 4.0]]", "3.0", "[[1.0, 2.0], [3.0, 4.0]]"]
    assert m.run(lanes=1) == lines


def test_select_picks_per_lane():
    m = KernelBuilder(ArrayType(int32, 1))
    i = m.tid()
    m("array.store", m.params[0], m("select", m.cmp("lt", i, m.const(2)), i, m.const(-1)), i)
    a = np.zeros(4, np.int32)
    m.run(a)
    assert a.tolist() == [0, 1, -1, -1]


OTHER_TESTED_OPS = (
    *("bit_count", "clz", "brev", "permute_bytes", "dot_bytes"),
    *("neg", "abs", "not", "cmp", "classify", "never_above", "copysign"),
    *("sqrt", "floor", "ceil", "trunc", "rint", "fma", "fast.exp2", "reciprocal"),
)


def test_reciprocals_are_rounded_once():
    a = np.array([3.0, -7.0, 2.0**-100, -(2.0**100), 1.9999999], np.float32)
    assert np.array_equal(evaluate("reciprocal", float32, a), (1 / a.astype(float)).astype(np.float32))


def test_bit_counts_and_reversals_match_python():
    for t in (int8, uint32, int64):
        values = [0, 1, 5, (1 << t.bits - 1) - 1]
        words = [f"{x:0{t.bits}b}" for x in values]
        a = np.array(values, to_numpy(t))
        assert evaluate("bit_count", t, a).tolist() == [w.count("1") for w in words]
        assert evaluate("clz", t, a).tolist() == [t.bits - len(w.lstrip("0")) for w in words]
        assert evaluate("brev", t, a).tolist() == [wrap(int(w[::-1], 2), t) for w in words]


def test_bytes_are_permuted_by_the_digits_of_a_selector():
    a, b = np.array([0x33221100], np.uint32), np.array([0x77665544], np.uint32)
    for selector, expected in ((0x3210, 0x33221100), (0x7514, 0x77551144), (0x0000, 0), (0x0763, 0x00776633)):
        selectors = np.array([selector], np.uint32)
        assert evaluate("permute_bytes", uint32, a, b, selectors).tolist() == [expected]


def test_digits_from_8_on_select_signs():
    a, b = np.array([0x80FF7F00], np.uint32), np.array([0x00000080], np.uint32)
    for selector, expected in ((0xBA98, 0xFFFF0000), (0x3C1F, 0x80FF7F00), (0xFFFF, 0)):
        selectors = np.array([selector], np.uint32)
        assert evaluate("permute_bytes", uint32, a, b, selectors).tolist() == [expected]


def test_bytes_are_multiplied_and_added():
    a, b = [0x80FF7F01, 0xFFFFFFFF], [0xFF0203FF, 0xFFFFFFFF]
    sums = [-128 * 255 + -1 * 2 + 127 * 3 + 255 + 7, -4 * 255 - 1]
    expected = [x % (1 << 32) for x in sums]
    assert evaluate("dot_bytes", uint32, a, b, [7, 0xFFFFFFFF]).tolist() == expected


def test_fused_float16_is_rounded_once():
    a, b, c = ([np.float16(x)] for x in (1 + 3 * 2.0**-10, 1.5, 2.0**-24))
    exact = Fraction(float(a[0])) * Fraction(float(b[0])) + Fraction(float(c[0]))
    (result,) = evaluate("fma", float16, a, b, c)
    neighbours = [result, np.nextafter(result, np.float16(9)), np.nextafter(result, np.float16(0))]
    assert min(neighbours, key=lambda x: abs(Fraction(float(x)) - exact)) == result
    twice = np.float16(np.float32(float(exact)))
    assert result != twice


def test_tests_cover_every_elementwise_op():
    covered = {*EXACT, *OTHER_TESTED_OPS}
    elementwise = {n for n, c in REGISTRY.items() if issubclass(c, Elementwise)}
    assert elementwise == covered
