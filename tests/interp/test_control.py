"""Lanes in lockstep: masks, loops, values carried by lanes, and refused divergence."""

import subprocess
import sys

import numpy as np
import pytest
from kernel_builder import KernelBuilder, lanes_of

from tegula.errors import DivergentCooperativeOp, KernelAssertion, LaunchError
from tegula.interp import run
from tegula.types import ArrayType, BufType, VecType, float32, int8, int32, uint8

INTS = ArrayType(int32, 1)


def test_both_branches_under_masks_are_merged():
    m = KernelBuilder(INTS)
    out, i = m.params[0], m.tid()
    odd = m.cmp("eq", m("and", i, m.const(1)), m.const(1))
    selected = m.if_(odd, lambda: m("mul", i, m.const(10)), lambda: m("neg", i))
    lanes_of(m, out, selected)
    a = np.zeros(4, np.int32)
    m.run(a)
    assert a.tolist() == [0, 10, -2, 30]


def test_stores_happen_in_active_lanes_only():
    m = KernelBuilder(INTS)
    i = m.tid()
    m.if_(m.cmp("gt", i, m.const(1)), lambda: lanes_of(m, m.params[0], m.const(7)))
    a = np.zeros(4, np.int32)
    m.run(a)
    assert a.tolist() == [0, 0, 7, 7]


def test_an_untaken_branch_is_not_run():
    m = KernelBuilder(INTS)
    i = m.tid()
    is_negative = m.cmp("lt", i, m.const(0))
    m.if_(is_negative, lambda: m("print.tile", m("tile.full", i, shape=(2,))))
    assert m.run(np.zeros(1, np.int32)) == []


def test_lanes_leave_a_for_loop_one_after_the_other():
    m = KernelBuilder(INTS)
    i = m.tid()
    total = m.for_(i, [m.const(0)], lambda k, t: m("add", t, m("add", k, m.const(1))))
    lanes_of(m, m.params[0], total)
    a = np.zeros(4, np.int32)
    m.run(a)
    assert a.tolist() == [0, 1, 3, 6]


@pytest.mark.parametrize(
    ("start", "stop", "step"), [(0, 10, 3), (10, 0, -3), (0, 0, 1), (3, 1, 1), (1, 3, -1)]
)
def test_for_loops_iterate_like_range(start, stop, step):
    m = KernelBuilder(INTS)
    m.for_(m.const(stop), [], lambda k: m("print", k, parts=(None,)), start, step)
    assert m.run(np.zeros(1, np.int32), lanes=1) == [str(k) for k in range(start, stop, step)]


def test_a_for_loop_to_the_largest_number_ends():
    m = KernelBuilder()
    m.for_(m.const(255, uint8), [], lambda k: m("print", k, parts=(None,)), 250, 2)
    assert m.run(lanes=1) == ["250", "252", "254"]
    m = KernelBuilder()
    m.for_(m.const(-128, int8), [], lambda k: m("print", k, parts=(None,)), -120, -5)
    assert m.run(lanes=1) == ["-120", "-125"]


def test_a_for_loop_with_a_step_of_zero_fails():
    m = KernelBuilder()
    m.for_(m.const(3), [], lambda k: None, 0, 0)
    with pytest.raises(KernelAssertion, match="step"):
        m.run()


def test_while_loops_keep_the_values_of_lanes_that_left():
    m = KernelBuilder(INTS)
    i = m.tid()

    def halve(x, n):
        return m("shr", x, m.const(1)), m("add", n, m.const(1))

    start = m("mul", m("mul", i, i), i)
    _, steps = m.while_([start, m.const(0)], lambda x, n: m.cmp("gt", x, m.const(0)), halve)
    lanes_of(m, m.params[0], steps)
    a = np.zeros(4, np.int32)
    m.run(a)
    assert a.tolist() == [0, 1, 4, 5]


def test_nested_divergent_branches_are_correct():
    m = KernelBuilder(INTS)
    i = m.tid()

    def inner(k, t):
        even = m.cmp("eq", m("and", k, m.const(1)), m.const(0))
        return m.if_(even, lambda: m("add", t, k), lambda: m("sub", t, m.const(1)))

    big = m.cmp("ge", i, m.const(2))
    out = m.if_(big, lambda: m.for_(m("mul", i, i), [m.const(0)], inner), lambda: m.const(-9))
    lanes_of(m, m.params[0], out)
    a = np.zeros(4, np.int32)
    m.run(a)
    expected = [sum(k if k % 2 == 0 else -1 for k in range(n * n)) if n >= 2 else -9 for n in range(4)]
    assert a.tolist() == expected


def test_branches_inside_branches_keep_the_outer_mask():
    m = KernelBuilder(INTS)
    i = m.tid()

    def inner():
        even = m.cmp("eq", m("and", i, m.const(1)), m.const(0))
        m.if_(
            even, lambda: lanes_of(m, m.params[0], m.const(1)), lambda: lanes_of(m, m.params[0], m.const(2))
        )

    m.if_(m.cmp("ge", i, m.const(2)), inner)
    a = np.zeros(4, np.int32)
    m.run(a)
    assert a.tolist() == [0, 0, 1, 2]


def test_a_lane_that_left_a_loop_does_not_return():
    """The condition reads memory: lane 0 leaves at once, and the element that it read changes later."""
    m = KernelBuilder(INTS, INTS)
    flags, counts = m.params
    i, one = m.tid(), m.const(1)

    def body():
        m("array.store", flags, one, m.const(0))
        m("array.atomic", counts, one, i, op="add")
        m("array.store", flags, m.cmp_int("lt", m("array.load", counts, i), m.const(3)), i)
        return []

    m.while_([], lambda: m.cmp("ne", m("array.load", flags, i), m.const(0)), body)
    a, b = np.array([0, 1, 1, 1], np.int32), np.zeros(4, np.int32)
    m.run(a, b)
    assert b.tolist() == [0, 3, 3, 3]


def test_a_tree_reduction_in_a_tile_is_ordered():
    """All lanes finish each op before the next starts."""
    m = KernelBuilder(INTS, block_dim=8)
    i = m.tid()
    t = m("buf.new", m("tile.from_lanes", i, lanes=8, preserve_type=False, partial=False), storage="shared")

    def step(k):
        def fold():
            m("buf.update", t, m("buf.get", t, m("add", i, k)), i, op="add")

        m.if_(m.cmp("lt", i, k), fold)
        return m("shr", k, m.const(1))

    m.while_([m.const(4)], lambda k: m.cmp("gt", k, m.const(0)), step)
    lanes_of(m, m.params[0], m("buf.get", t, m.const(0)))
    a = np.zeros(8, np.int32)
    m.run(a)
    assert a.tolist() == [28] * 8


@pytest.mark.parametrize("condition", ["if", "for", "while"])
def test_cooperative_ops_in_divergent_control_are_refused(condition):
    m = KernelBuilder(INTS)
    i = m.tid()

    def body(*_):
        m("tile.full", i, shape=(4,))
        return []

    if condition == "if":
        m.if_(m.cmp("lt", i, m.const(2)), body)
    elif condition == "for":
        m.for_(i, [], body)
    else:
        m.while_([i], lambda k: m.cmp("gt", k, m.const(0)), lambda k: (body(), m("sub", k, m.const(1)))[1])
    with pytest.raises(DivergentCooperativeOp, match="tile.full") as caught:
        m.run(np.zeros(4, np.int32))
    assert caught.value.loc.file == "kernel.py"


def test_a_uniform_condition_does_not_diverge_even_if_it_is_computed_per_lane():
    m = KernelBuilder(INTS)
    i = m.tid()
    m.if_(m.cmp("lt", i, m.const(4)), lambda: m("print.tile", m("tile.full", m.const(1), shape=(2,))))
    assert m.run(np.zeros(4, np.int32)) == ["[1, 1]"]


def test_lanes_cannot_choose_different_tiles():
    m = KernelBuilder(INTS)
    a, b = (m("tile.full", m.const(k), shape=(2,)) for k in (1, 2))
    m.if_(m.cmp("lt", m.tid(), m.const(2)), lambda: a, lambda: b)
    with pytest.raises(DivergentCooperativeOp, match="'if'"):
        m.run(np.zeros(4, np.int32))


def test_lanes_may_carry_the_same_tile_through_divergent_control():
    m = KernelBuilder(INTS)
    t = m("tile.full", m.const(5), shape=(2,))
    carried = m.for_(m.tid(), [t], lambda k, x: x)
    selected_tile = m.if_(m.cmp("lt", m.tid(), m.const(2)), lambda: carried, lambda: t)
    m("print.tile", selected_tile)
    assert m.run(np.zeros(4, np.int32)) == ["[5, 5]"]


def test_lanes_may_choose_different_arrays():
    m = KernelBuilder(INTS, INTS)
    i = m.tid()
    lanes_of(m, m.if_(m.cmp("lt", i, m.const(2)), lambda: m.params[0], lambda: m.params[1]), i)
    a, b = np.full(4, 9, np.int32), np.full(4, 9, np.int32)
    m.run(a, b)
    assert (a.tolist(), b.tolist()) == ([0, 1, 9, 9], [9, 9, 2, 3])


def test_lanes_cannot_choose_different_buffers():
    m = KernelBuilder(INTS)
    a, b = (m("buf.new", m("tile.full", m.const(k), shape=(2,)), storage="shared") for k in (1, 2))
    assert a.type == BufType(int32, (2,), "shared")
    m.if_(m.cmp("lt", m.tid(), m.const(2)), lambda: a, lambda: b)
    with pytest.raises(DivergentCooperativeOp):
        m.run(np.zeros(4, np.int32))


def test_lane_regions_run_under_the_enclosing_mask():
    m = KernelBuilder(INTS)
    i = m.tid()

    def body():
        result = m("lanes", regions=[m.region((), lambda: m("mul", i, i))])
        m("lanes", regions=[m.region((), lambda: lanes_of(m, m.params[0], result))])

    m.if_(m.cmp("gt", i, m.const(1)), body)
    a = np.zeros(4, np.int32)
    m.run(a)
    assert a.tolist() == [0, 0, 4, 9]


def test_the_oracle_is_independent_of_passes_and_code_generation():
    code = "import sys, tegula.interp; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    own_modules = {name.split(".")[1] for name in loaded if name.startswith("tegula.")}
    assert own_modules == {
        "algebra",
        "composite",
        "dataclass",
        "errors",
        "evaluation",
        "fitting",
        "handles",
        "interp",
        "ir",
        "layout",
        "ops",
        "source",
        "structs",
        "types",
    }
    assert "llvmlite" not in loaded


# Launches -------------------------------------------------------------------------------------------------------------


def test_thread_indices_are_row_major_over_all_dimensions():
    m = KernelBuilder(ArrayType(int32, 3), block_dim=5, ndim=3)
    i, j, k = m("tid", count=3)
    code = m("add", m("mul", i, m.const(100)), m("add", m("mul", j, m.const(10)), k))
    m("array.store", m.params[0], code, i, j, k)
    a = np.zeros((2, 3, 4), np.int32)
    m.run(a, dims=(2, 3, 4))
    assert a.tolist() == [[[100 * i + 10 * j + k for k in range(4)] for j in range(3)] for i in range(2)]


def test_tid_returns_leading_components_only():
    m = KernelBuilder(ndim=2)
    m("print", m.tid(), parts=("i=", None))
    assert m.run(dims=(2, 2)) == ["i=0", "i=0", "i=1", "i=1"]


def test_the_first_failed_assertion_is_raised_after_the_launch():
    m = KernelBuilder(INTS)
    i = m.tid()
    m("assert", m.cmp("ne", m("and", i, m.const(3)), m.const(2)), message="no twos")
    lanes_of(m, m.params[0], m.const(1))
    a = np.zeros(8, np.int32)
    with pytest.raises(KernelAssertion, match="no twos; block 0, lane 2"):
        m.run(a, lanes=8)
    assert a.tolist() == [1] * 8


def test_absent_lanes_do_not_assert_or_print():
    m = KernelBuilder()
    m("print", m.tid(), m.const(((1, 2)), VecType(2, int32)), parts=("lane ", None, " has ", None))
    m("assert", m.cmp("lt", m.tid(), m.const(2)), message="")
    assert m.run(lanes=2) == ["lane 0 has [1, 2]", "lane 1 has [1, 2]"]


@pytest.mark.parametrize(
    ("args", "dims", "block_dim"),
    [
        ((np.zeros(4, np.int32),), (4,), 4),
        ((np.zeros(4, np.int64), 1.0), (4,), 4),
        ((np.zeros((4, 1), np.int32), 1.0), (4,), 4),
        ((np.zeros(4, np.int32), (1.0, 2.0)), (4,), 4),
        (([0, 0], 1.0), (4,), 4),
        ((np.zeros(4, np.int32), 1.0), (4, 4), 4),
        ((np.zeros(4, np.int32), 1.0), (4,), 8),
    ],
)
def test_the_interpreter_refuses_arguments_that_do_not_fit(args, dims, block_dim):
    m = KernelBuilder(INTS, float32)
    kernel = m.finish()
    with pytest.raises(LaunchError):
        run(kernel, args, dims, block_dim)


def test_the_interpreter_takes_scalar_and_vector_arguments():
    m = KernelBuilder(ArrayType(VecType(2, float32), 1), VecType(2, float32), float32)
    out, v, x = m.params
    m("array.store", out, m("add", v, m("vec.splat", x, type=v.type)), m.tid())
    a = np.zeros((4, 2), np.float32)
    m.run(a, np.array([1, 2], np.float32), 0.5)
    assert a.tolist() == [[1.5, 2.5]] * 4
