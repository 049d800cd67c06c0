"""Arrays, buffers and stacks: bounds, order, atomics, views that alias."""

import numpy as np
import pytest
from kernel_builder import KernelBuilder, lanes_of

from tegula.errors import InternalError, OutOfBounds
from tegula.types import (
    ArrayType,
    MatType,
    StackType,
    VecType,
    float16,
    float32,
    int32,
    uint8,
    uint64,
)

INTS = ArrayType(int32, 1)


def buffer(m: KernelBuilder, shape: tuple[int, ...], value: int = 0):
    return m("buf.new", m("tile.full", m.const(value), shape=shape), storage="shared")


def print_tile(m: KernelBuilder, t) -> None:
    m("print.tile", m("buf.read", t))


# Arrays ---------------------------------------------------------------------------------------------------------------


def test_stores_to_one_element_keep_the_value_of_the_last_lane():
    m = KernelBuilder(INTS)
    m("array.store", m.params[0], m.tid(), m.const(0))
    a = np.zeros(1, np.int32)
    m.run(a)
    assert a.tolist() == [3]


def test_atomics_happen_once_for_each_lane_in_lane_order():
    m = KernelBuilder(INTS, INTS)
    old = m(
        "array.atomic", m.params[0], m("add", m.tid(), m.const(1)), m("and", m.tid(), m.const(1)), op="add"
    )
    lanes_of(m, m.params[1], old)
    a, b = np.array([10, 20], np.int32), np.zeros(5, np.int32)
    m.run(a, b, lanes=5)
    assert a.tolist() == [19, 26]
    assert b.tolist() == [10, 20, 11, 22, 14]


def test_atomics_of_many_lanes_keep_lane_order():
    m = KernelBuilder(INTS, INTS, block_dim=300)
    slot = m("mod", m.tid(), m.const(3))
    lanes_of(m, m.params[1], m("array.atomic", m.params[0], m.tid(), slot, op="exch"))
    a, b = np.full(3, -1, np.int32), np.zeros(300, np.int32)
    m.run(a, b)
    assert a.tolist() == [297, 298, 299]
    assert b.tolist() == [-1] * 3 + list(range(297))


@pytest.mark.parametrize(
    ("op", "expected"),
    [("add", 6), ("sub", -6), ("min", 0), ("max", 3), ("and", 0), ("or", 3), ("xor", 0), ("exch", 3)],
)
def test_every_atomic_op_updates_its_element(op, expected):
    m = KernelBuilder(INTS)
    m("array.atomic", m.params[0], m.tid(), m.const(0), op=op)
    a = np.zeros(1, np.int32)
    m.run(a)
    assert a.tolist() == [expected]


def test_atomic_adds_are_wrapped_for_integers_and_rounded_for_floats():
    m = KernelBuilder(ArrayType(uint8, 1), ArrayType(float16, 1))
    m("array.atomic", m.params[0], m.const(100, uint8), m.const(0), op="add")
    m("array.atomic", m.params[1], m.const(1.0, float16), m.const(0), op="add")
    a, b = np.zeros(1, np.uint8), np.array([2048], np.float16)
    m.run(a, b)
    assert (a[0], b[0]) == (400 % 256, 2048)


def test_atomics_on_vectors_are_component_by_component():
    t = VecType(2, float32)
    m = KernelBuilder(ArrayType(t, 1))
    m("array.atomic", m.params[0], m.const((1.0, -1.0), t), m.const(1), op="add")
    a = np.zeros((2, 2), np.float32)
    m.run(a)
    assert a.tolist() == [[0, 0], [4, -4]]


def test_atomic_min_ignores_nan():
    m = KernelBuilder(ArrayType(float32, 1))
    m("array.atomic", m.params[0], m("cast", m.tid(), to=float32), m.const(0), op="min")
    a = np.array([np.nan], np.float32)
    m.run(a)
    assert a[0] == 0


def test_compare_and_swap_lets_one_lane_win():
    m = KernelBuilder(INTS, INTS)
    lanes_of(m, m.params[1], m("array.cas", m.params[0], m.const(5), m.tid(), m.const(0)))
    a, b = np.array([5], np.int32), np.zeros(4, np.int32)
    m.run(a, b)
    assert a.tolist() == [0]
    assert b.tolist() == [5, 0, 0, 0]


def test_compare_and_swap_compares_bits():
    m = KernelBuilder(ArrayType(float32, 1))
    for k, (expected, value) in enumerate([(float("nan"), 1.0), (0.0, 1.0), (-0.0, 2.0)]):
        m("array.cas", m.params[0], m.f(expected), m.f(value), m.const(k))
    a = np.array([np.nan, -0.0, -0.0], np.float32)
    m.run(a)
    assert a.tolist() == [1, 0, 2]


@pytest.mark.parametrize("kind", ["load", "store", "atomic", "cas"])
def test_array_accesses_out_of_bounds_are_dropped_and_reported(kind):
    m = KernelBuilder(ArrayType(int32, 2))
    i, a = m.tid(), m.params[0]
    index = (i, m.const(1))
    if kind == "load":
        m("array.load", a, *index)
    elif kind == "store":
        m("array.store", a, m.const(1), *index)
    elif kind == "atomic":
        m("array.atomic", a, m.const(1), *index, op="add")
    else:
        m("array.cas", a, m.const(0), m.const(1), *index)
    data = np.zeros((2, 3), np.int32)
    location = r"kernel.py:\d:1: kernel made, array.\w+"
    with pytest.raises(
        OutOfBounds, match=location + r": index \(2, 1\) is outside 'p0' of shape \(2, 3\); block 0, lane 2"
    ):
        m.run(data)
    assert data.tolist() == [[0, int(kind != "load"), 0]] * 2


def test_negative_and_huge_indices_are_out_of_bounds():
    for index in (-1, 1 << 63):
        m = KernelBuilder(INTS)
        m("array.load", m.params[0], m.const(index, int32 if index < 0 else uint64))
        with pytest.raises(OutOfBounds):
            m.run(np.zeros(4, np.int32))


def test_strided_arguments_are_changed_in_place():
    m = KernelBuilder(ArrayType(int32, 2))
    m("array.store", m.params[0], m.const(1), m.tid(), m.const(0))
    base = np.zeros((3, 8), np.int32)
    m.run(base[:, ::2].T)
    assert base.tolist() == [[1, 0] * 4, [0] * 8, [0] * 8]


def test_views_of_arrays_alias():
    m = KernelBuilder(ArrayType(int32, 2))
    a = m.params[0]
    row = m("array.view", a, m.const(1), m.const(6), m.const(3), spec=("index", ("slice", -2)))
    m("array.store", row, m.const(5), m.const(1))
    m("print", m("array.shape", row, dim=0), m("array.shape", a, dim=1), parts=(None, " ", None))
    data = np.zeros((2, 8), np.int32)
    assert m.run(data, lanes=1) == ["3 8"]
    assert np.argwhere(data).tolist() == [[1, 4]]


def test_views_may_differ_between_lanes():
    m = KernelBuilder(ArrayType(int32, 2))
    row = m("array.view", m.params[0], m.tid(), m.const(0), m.const(2), spec=("index", ("slice", 1)))
    m("array.atomic", row, m.tid(), m.const(1), op="add")
    m("array.store", row, m("array.load", row, m.const(1)), m.const(0))
    a = np.full((4, 2), 10, np.int32)
    m.run(a)
    assert a.tolist() == [[10 + k, 10 + k] for k in range(4)]


def test_empty_and_reversed_views_are_accessed_correctly():
    m = KernelBuilder(INTS)
    empty_view = m("array.view", m.params[0], m.const(9), m.const(0), spec=(("slice", 1),))
    reversed_view = m("array.view", m.params[0], m.const(3), m.const(4), spec=(("slice", -1),))
    m(
        "print",
        m("array.shape", empty_view, dim=0),
        m("array.load", reversed_view, m.const(0)),
        parts=(None, " ", None),
    )
    assert m.run(np.arange(4, dtype=np.int32), lanes=1) == ["0 3"]


@pytest.mark.parametrize(("first", "count", "invalid"), [(4, 1, 4), (-1, 2, -1), (2, 3, 4)])
def test_an_array_view_out_of_bounds_is_reported(first, count, invalid):
    m = KernelBuilder(INTS)
    v = m("array.view", m.params[0], m.const(first), m.const(count), spec=(("slice", 1),))
    m("array.store", v, m.const(1), m.const(0))
    a = np.zeros(4, np.int32)
    with pytest.raises(OutOfBounds, match=f"array.view: index .{invalid}"):
        m.run(a)
    assert not a.any()


# Buffers --------------------------------------------------------------------------------------------------------------


def test_a_buffer_is_a_copy_and_a_read_returns_a_value():
    m = KernelBuilder(INTS)
    t = buffer(m, (2,), 1)
    first_value = m("buf.read", t)
    m("buf.write", t, m("tile.full", m.const(2), shape=(2,)))
    copy = m("buf.new", m("buf.read", t), storage="register")
    m("buf.set", t, m.const(3), m.const(0))
    m("print.tile", first_value)
    print_tile(m, t)
    print_tile(m, copy)
    assert m.run(np.zeros(1, np.int32)) == ["[1, 1]", "[3, 2]", "[2, 2]"]


def test_buffer_updates_are_atomic_and_happen_once_for_each_lane():
    m = KernelBuilder(block_dim=256)
    t = buffer(m, (1,))
    m("buf.update", t, m.const(1), m.const(0), op="add")
    print_tile(m, t)
    assert m.run() == ["[256]"]


def test_buffer_views_alias_each_other():
    m = KernelBuilder()
    t = buffer(m, (4, 6))
    transposed = m("buf.view", t, m.const(0), m.const(0), shape=(6, 4), dims=(1, 0), steps=(1, 1))
    part = m("buf.view", transposed, m.const(5), m.const(1), shape=(3, 2), dims=(0, 1), steps=(-2, 2))
    column = m("buf.view", part, m.const(0), m.const(1), shape=(3,), dims=(0,), steps=(1,))
    m("buf.write", column, m("tile.arange", m.const(1), m.const(1), count=3))
    m("buf.set", part, m.const(9), m.const(0), m.const(0))
    flat = m("buf.reshape", t, shape=(24,))
    m("buf.set", flat, m.const(7), m.const(1))
    print_tile(m, t)
    expected = np.zeros((4, 6), int)
    expected[3, [5, 3, 1]] = 1, 2, 3
    expected[1, 5], expected[0, 1] = 9, 7
    assert m.run() == [str(expected.tolist())]


def test_a_diagonal_view_walks_one_dimension_of_each():
    m = KernelBuilder()
    t = buffer(m, (3,), 4)
    wide = m("buf.view", t, m.const(1), shape=(2, 2), dims=(-1, 0), steps=(0, 1))
    m("buf.set", t, m.const(5), m.const(2))
    print_tile(m, wide)
    assert m.run() == ["[[4, 5], [4, 5]]"]


def test_a_broadcast_view_is_read_only():
    m = KernelBuilder()
    wide = m("buf.view", buffer(m, (3,)), m.const(0), shape=(2, 3), dims=(-1, 0), steps=(0, 1))
    m("buf.write", wide, m("tile.full", m.const(1), shape=(2, 3)))
    with pytest.raises(InternalError, match="broadcast"):
        m.run()


def test_a_tile_view_out_of_bounds_is_reported():
    m = KernelBuilder()
    v = m("buf.view", buffer(m, (4,)), m.const(2), shape=(2,), dims=(0,), steps=(2,))
    print_tile(m, v)
    with pytest.raises(OutOfBounds, match="buf.view"):
        m.run()


def test_reshapes_of_buffers_need_packed_elements():
    m = KernelBuilder()
    transposed = m(
        "buf.view", buffer(m, (2, 3)), m.const(0), m.const(0), shape=(3, 2), dims=(1, 0), steps=(1, 1)
    )
    m("buf.reshape", transposed, shape=(6,))
    with pytest.raises(InternalError, match="packed"):
        m.run()


def test_components_and_rows_of_elements_are_extra_indices():
    t = MatType(2, 2, float32)
    m = KernelBuilder()
    zero, one = m.const(0), m.const(1)
    b = m("buf.new", m("tile.full", m.const(((1.0, 2.0), (3.0, 4.0)), t), shape=(2,)), storage="register")
    m("buf.update", b, m.f(0.5), one, one, zero, op="add")
    m("buf.set", b, m.const((8.0, 9.0), VecType(2, float32)), zero, zero)
    m("print", m("buf.get", b, one), m("buf.get", b, one, one), parts=(None, None))
    m("print", m("tile.extract", m("buf.read", b), zero, zero, one), parts=(None,))
    assert m.run(lanes=1) == ["[[1.0, 2.0], [3.5, 4.0]][3.5, 4.0]", "9.0"]


@pytest.mark.parametrize("op", ["get", "set", "update", "extract"])
def test_tile_accesses_out_of_bounds_are_reported(op):
    m = KernelBuilder()
    b = buffer(m, (2,))
    if op == "get":
        m("buf.get", b, m.tid())
    elif op == "set":
        m("buf.set", b, m.const(1), m.tid())
    elif op == "update":
        m("buf.update", b, m.const(1), m.tid(), op="add")
    else:
        m("tile.extract", m("buf.read", b), m.tid())
    with pytest.raises(OutOfBounds, match=r"index \(2\) is outside a tile of shape \(2,\); block 0, lane 2"):
        m.run()


# Stacks ---------------------------------------------------------------------------------------------------------------


def test_stacks_push_in_lane_order_and_pop_from_the_top():
    m = KernelBuilder()
    s = m("stack.new", type=StackType(int32, 4))
    i = m.tid()
    first = m("stack.push", s, m("mul", i, m.const(10)), m.cmp("ne", i, m.const(1)))
    second = m("stack.push", s, i, m.cmp("gt", i, m.const(1)))
    m("print", first, second, m("stack.count", s), parts=(None, " ", None, " ", None))
    value, slot = m("stack.pop", s)
    m("print", value, slot, parts=(None, " ", None))
    m("stack.pop", s)
    m("stack.clear", s)
    value, slot = m("stack.pop", s)
    m("print", value, slot, m("stack.count", s), parts=(None, " ", None, " ", None))
    lines = m.run()
    assert lines[:4] == ["0 -1 4", "-1 -1 4", "1 3 4", "2 -1 4"]
    assert lines[4:8] == ["2 3", "30 2", "20 1", "0 0"]
    assert lines[8:] == ["0 -1 0"] * 4
