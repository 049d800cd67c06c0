"""Tile ops in whole and partial blocks."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_builder import KernelBuilder

from tegula.errors import InternalError, OutOfBounds
from tegula.interp.machine import HANDLERS
from tegula.ir import REGISTRY
from tegula.ops.schedule import ScheduleOp
from tegula.types import (
    ArrayType,
    MatType,
    TileType,
    VecType,
    bfloat16,
    float8_e4m3,
    float16,
    float32,
    from_numpy,
    int8,
    int32,
)

LOAD = {"bounds_check": True, "aligned": False}


def test_the_interpreter_has_a_handler_for_every_op():
    """The interpreter runs all ops except ops of hardware schedules, of kernels to be differentiated, and of code
    generation for blocks in lanes."""
    without_handler = {
        "yield",
        "call",
        "unreplayable",
        "tile.address",
        "tile.load_in_lanes",
        "tile.store_in_lanes",
    }
    other_ops = {
        n: c
        for n, c in REGISTRY.items()
        if n not in without_handler and c not in HANDLERS and not issubclass(c, ScheduleOp)
    }
    assert [n for n, c in other_ops.items() if not hasattr(c, "ref")] == []


def loaded(m: KernelBuilder, array, shape, *offsets: int, fill=0, **attrs):
    t = array.type.dtype
    indices = [m.const(k) for k in offsets or (0,) * len(shape)]
    return m("tile.load", array, m.const(fill, t), *indices, shape=shape, **(LOAD | attrs))


def evaluate(build, *inputs: np.ndarray, lanes: int = 4, block_dim: int = 4) -> list:
    """The elements of the tile `build(builder, *tiles)`, as nested lists."""
    m = KernelBuilder(*(ArrayType(from_numpy(a.dtype), a.ndim) for a in inputs), block_dim=block_dim)
    out = build(m, *(loaded(m, p, a.shape) for p, a in zip(m.params, inputs, strict=True)))
    assert isinstance(out.type, TileType)
    m("print.tile", out)
    (line,) = m.run(*inputs, lanes=lanes)
    return eval(line, {"nan": np.nan, "inf": np.inf})


A = np.arange(12, dtype=np.int32).reshape(3, 4)


def add(m):
    return lambda a, b: m("add", a, b)


def reduce(m, tile, axis=None, keepdims=False, op=None):
    region = m.region([tile.type.dtype] * 2, op or add(m))
    return m("tile.reduce", tile, regions=[region], axis=axis, keepdims=keepdims)


def test_shape_ops_match_numpy():
    assert evaluate(lambda m, a: m("tile.reshape", a, shape=(2, 6)), A) == A.reshape(2, 6).tolist()
    assert evaluate(lambda m, a: m("tile.permute", a, perm=(1, 0)), A) == A.T.tolist()
    assert evaluate(lambda m, a: m("tile.broadcast", a, shape=(2, 3, 4)), A) == [A.tolist()] * 2
    assert evaluate(lambda m, a, b: m("tile.concat", a, b, axis=1), A, A) == np.hstack([A, A]).tolist()
    slice_attrs = {"shape": (2, 2), "dims": (1, 0), "steps": (-2, 1)}
    assert (
        evaluate(lambda m, a: m("tile.slice", a, m.const(1), m.const(3), **slice_attrs), A)
        == A[1:3, 3:0:-2].T.tolist()
    )
    row_attrs = {"shape": (3,), "dims": (1,), "steps": (1,)}
    assert (
        evaluate(lambda m, a: m("tile.slice", a, m.const(2), m.const(1), **row_attrs), A) == A[2, 1:].tolist()
    )


def test_shape_ops_keep_vector_elements_together():
    t = VecType(2, int32)
    m = KernelBuilder(ArrayType(t, 2))
    a = np.arange(12, dtype=np.int32).reshape(2, 3, 2)
    x = loaded(m, m.params[0], (2, 3))
    m("print.tile", m("tile.permute", x, perm=(1, 0)))
    m("print.tile", m("tile.reshape", x, shape=(6,)))
    m("print.tile", m("tile.gather", x, m("tile.arange", m.const(-1), m.const(2), count=3), axis=1))
    m("print.tile", m("tile.full", m.const((1, 2), t), shape=(2,)))
    zero = np.zeros((2, 1, 2), int)
    assert [eval(line) for line in m.run(a)] == [
        a.transpose(1, 0, 2).tolist(),
        a.reshape(6, 2).tolist(),
        np.concatenate([a[:, 2:], a[:, 1:2], zero], 1).tolist(),
        [[1, 2], [1, 2]],
    ]


def test_a_tile_slice_out_of_bounds_is_reported():
    with pytest.raises(OutOfBounds, match="tile.slice"):
        evaluate(
            lambda m, a: m("tile.slice", a, m.const(1), m.const(0), shape=(3,), dims=(0,), steps=(1,)), A
        )


def test_group_operands_have_the_values_of_lane_0():
    m = KernelBuilder(ArrayType(int32, 1))
    i = m("add", m.tid(), m.const(2))
    m("print.tile", m("tile.full", i, shape=(2,)))
    m("print.tile", m("tile.load", m.params[0], i, i, shape=(3,), **LOAD))
    m("print.tile", m.map(lambda a, b: m("mul", a, b), m("tile.full", i, shape=(2,)), i))
    m("print", m("lane.uniform", i), parts=(None,))
    assert m.run(np.arange(4, dtype=np.int32)) == ["[2, 2]", "[2, 3, 2]", "[4, 4]", "2", "2", "2", "2"]


def test_out_of_bounds_loads_fill_and_stores_are_dropped():
    m = KernelBuilder(ArrayType(int32, 2))
    t = loaded(m, m.params[0], (3, 3), -1, 2, fill=9)
    m("print.tile", t)
    m("tile.store", m.params[0], t, m.const(1), m.const(-2), **LOAD)
    a = A.copy()
    assert m.run(a) == ["[[9, 9, 9], [2, 3, 9], [6, 7, 9]]"]
    assert a[:, 0].tolist() == [0, 9, 9]
    assert (a[:, 1:] == A[:, 1:]).all()


def test_an_unchecked_load_out_of_bounds_is_reported():
    for attrs in ({"bounds_check": False}, {"aligned": True}):
        m = KernelBuilder(ArrayType(int32, 1))
        loaded(m, m.params[0], (3,), 2, **attrs)
        with pytest.raises(OutOfBounds, match=r"index \(4\) is outside 'p0' of shape \(4,\)"):
            m.run(np.zeros(4, np.int32))


def test_tile_atomics_return_previous_elements():
    m = KernelBuilder(ArrayType(int32, 1))
    t = m("tile.arange", m.const(1), m.const(1), count=4)
    m("print.tile", m("tile.atomic", m.params[0], t, m.const(1), op="add", bounds_check=True))
    m("tile.atomic", m.params[0], t, m.const(0), op="max", bounds_check=True)
    a = np.array([10, 0, 30], np.int32)
    assert m.run(a) == ["[0, 30, 0, 0]"]
    assert a.tolist() == [10, 2, 32]


def test_maps_run_control_flow_per_element():
    def halvings(m, tile):
        def steps(x):
            def body(y, n):
                return (m("shr", y, m.const(1)), m("add", n, m.const(1)))

            return m.while_([x, m.const(0)], lambda y, n: m.cmp("gt", y, m.const(0)), body)[1]

        def element(x):
            return m.if_(m.cmp("gt", x, m.const(5)), lambda: steps(x), lambda: m.const(-1))

        return m.map(element, tile)

    assert evaluate(halvings, A) == [[-1] * 4, [-1, -1, 3, 3], [4] * 4]


@given(st.integers(1, 17), st.integers(1, 5))
@settings(deadline=None, max_examples=20)
def test_reductions_of_any_shape_match_numpy(rows, columns):
    a = np.random.default_rng(rows * 10 + columns).integers(-9, 9, (rows, columns)).astype(np.int32)
    assert evaluate(reduce, a) == [a.sum()]
    assert evaluate(lambda m, t: reduce(m, t, keepdims=True), a) == [[a.sum()]]
    assert evaluate(lambda m, t: reduce(m, t, 0), a) == a.sum(0).tolist()
    assert evaluate(lambda m, t: reduce(m, t, 1, True), a) == a.sum(1, keepdims=True).tolist()


def matmul(m, a, b, c, alpha=1.0, beta=1.0):
    t = c.type.dtype
    return m("tile.matmul", a, b, c, m.const(alpha, t), m.const(beta, t))


def test_matmuls_accumulate_in_the_type_of_the_result():
    a, b = np.eye(2, 3, dtype=np.float16) * 2048, np.ones((3, 2), np.float16)
    c = np.ones((2, 2), np.float32)
    assert evaluate(lambda m, a, b, c: matmul(m, a, b, c, 2.0, 3.0), a, b, c) == [[4099.0] * 2] * 2
    # A partial sum in float16 would lose the terms 1: 2048 + 1 + 1.
    a = np.array([[2048, 1, 1]], np.float16)
    out = evaluate(matmul, a, np.ones((3, 1), np.float16), np.zeros((1, 1), np.float16))
    assert out == [[2050.0]]
    narrow = np.array([[1.5, -2]], ml_dtypes.float8_e4m3fn)
    out = evaluate(matmul, narrow, narrow.T.copy(), np.zeros((1, 1), ml_dtypes.bfloat16))
    assert out == [[6.25]]


def test_integer_matmuls_wrap():
    a = np.full((1, 2), 100, np.int8)
    wide = evaluate(lambda m, *t: matmul(m, *t, 1, 1), a, a.T.copy(), np.zeros((1, 1), np.int32))
    wrapped = evaluate(lambda m, *t: matmul(m, *t, 1, 1), a, a.T.copy(), np.zeros((1, 1), np.int8))
    assert (wide, wrapped) == ([[20000]], [[20000 - 78 * 256]])


# Lanes and tiles ------------------------------------------------------------------------------------------------------


def from_lanes(m: KernelBuilder, value, preserve_type=False, partial=True):
    return m("tile.from_lanes", value, lanes=4, preserve_type=preserve_type, partial=partial)


def test_values_of_lanes_become_tiles_and_return():
    t = MatType(2, 2, int32)
    m = KernelBuilder()
    i = m.tid()
    value = m("vec.make", i, m("neg", i), m.const(5), m("mul", i, i), type=t)
    flat, with_type = from_lanes(m, value), from_lanes(m, value, True)
    assert flat.type == TileType(int32, (2, 2, 4), True)
    assert with_type.type == TileType(t, (4,), True)
    m("print.tile", flat)
    for tile in (flat, with_type):
        m("print", m("tile.to_lanes", tile, lanes=4), parts=(None,))
    lines = m.run()
    assert lines[0] == "[[[0, 1, 2, 3], [0, -1, -2, -3]], [[5, 5, 5, 5], [0, 1, 4, 9]]]"
    assert lines[1:5] == lines[5:] == [f"[[{i}, {-i}], [5, {i * i}]]" for i in range(4)]


@pytest.mark.parametrize(("lane", "expected"), [(0, 10), (2, 12), (3, 0), (4, 0), (-1, 0)])
def test_from_thread_of_an_absent_lane_is_zero(lane, expected):
    m = KernelBuilder()
    value = m("add", m.tid(), m.const(10))
    m("print.tile", m("tile.from_thread", value, m.const(lane), shape=(2,)))
    assert m.run(lanes=3) == [f"[{expected}, {expected}]"]


def test_the_lane_index_of_another_group_size_is_refused():
    m = KernelBuilder(block_dim=8)
    from_lanes(m, m.tid())
    with pytest.raises(InternalError, match="4 lanes in a block of 8"):
        m.run()


# Partial blocks -------------------------------------------------------------------------------------------------------


def test_reductions_skip_absent_lanes():
    m = KernelBuilder()
    t = from_lanes(m, m("sub", m.tid(), m.const(7)))
    largest = m.map(lambda a: m("mul", a, a), t)
    m("print.tile", reduce(m, t, op=lambda a, b: m("max", a, b)))
    m("print.tile", reduce(m, t))
    m("print.tile", reduce(m, largest, op=lambda a, b: m("min", a, b)))
    m("print", m("lane.count"), parts=(None,))
    assert m.run(lanes=3) == ["[-5]", "[-18]", "[25]", "3", "3", "3"]


def test_reductions_along_either_dimension_skip_absent_lanes():
    m = KernelBuilder()
    i = m.tid()
    t = from_lanes(m, m("vec.make", i, m("sub", i, m.const(9)), type=VecType(2, int32)))
    m("print.tile", reduce(m, t, 1))
    m(
        "print.tile",
        reduce(m, t, 1, op=lambda a, b: m("min", m("add", a, m.const(9)), m("add", b, m.const(9)))),
    )
    rows = reduce(m, t, 0)
    assert rows.type.partial
    m("print.tile", rows)
    m("print.tile", reduce(m, t))
    assert m.run(lanes=2) == ["[1, -17]", "[9, 0]", "[-9, -7, 0, 0]", "[-16]"]


def test_stores_and_atomics_of_absent_lanes_are_dropped():
    m = KernelBuilder(ArrayType(int32, 1), ArrayType(int32, 1))
    t = from_lanes(m, m("add", m.tid(), m.const(1)))
    m("tile.store", m.params[0], t, m.const(0), **LOAD)
    m("print.tile", m("tile.atomic", m.params[1], t, m.const(0), op="add", bounds_check=True))
    a, b = np.full(4, 7, np.int32), np.full(4, 7, np.int32)
    assert m.run(a, b, lanes=2) == ["[7, 7, 0, 0]"]
    assert a.tolist() == [1, 2, 7, 7]
    assert b.tolist() == [8, 9, 7, 7]


def test_elements_of_absent_lanes_are_zero():
    m = KernelBuilder()
    t = from_lanes(m, m("add", m.tid(), m.const(5)))
    m("print.tile", t)
    m("print", m("buf.get", m("buf.new", t, storage="shared"), m.const(3)), parts=(None,))
    assert m.run(lanes=2) == ["[5, 6, 0, 0]", "0", "0"]


def test_filled_elements_are_zero_and_marked_elements_are_dropped():
    m = KernelBuilder()
    t = m.map(lambda a: m("add", a, m.const(5)), from_lanes(m, m.tid()))
    full = m("tile.fill_absent", t)
    m("print.tile", full)
    shifted = m.map(lambda a: m("add", a, m.const(1)), full)
    m("print.tile", shifted)
    m("print.tile", reduce(m, m("tile.mark_partial", shifted)))
    m("print.tile", reduce(m, shifted))
    assert m.run(lanes=2) == ["[5, 6, 0, 0]", "[6, 7, 1, 1]", "[13]", "[15]"]


def test_a_map_does_not_assert_for_absent_lanes():
    m = KernelBuilder()

    def body(a):
        m("assert", m.cmp("gt", a, m.const(0)), message="positive")
        return a

    m.map(body, from_lanes(m, m("add", m.tid(), m.const(1))))
    assert m.run(lanes=3) == []


def test_every_block_has_its_own_tiles():
    m = KernelBuilder(ArrayType(int32, 1))
    total = reduce(m, from_lanes(m, m.tid()))
    m("array.store", m.params[0], m("tile.extract", total, m.const(0)), m.tid())
    a = np.zeros(10, np.int32)
    m.run(a, lanes=10)
    assert a.tolist() == [6] * 4 + [22] * 4 + [17] * 2


def test_constants_of_narrow_types_are_rounded():
    m = KernelBuilder()
    for value, t in [
        (0.1, float16),
        (0.1, bfloat16),
        (500.0, float8_e4m3),
        (300, int8),
        ((0.5, 1), VecType(2, float32)),
    ]:
        m("print", m.const(value, t), parts=(None,))
    assert m.run(lanes=1) == ["0.1", "0.100098", "nan", "44", "[0.5, 1.0]"]
