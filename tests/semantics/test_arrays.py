"""The section "Arrays" of the semantics: overlaps, access classes and debug mode, with a test for each line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from agreement import agree, interpret

import tegula as tg

pytestmark = pytest.mark.machine_code


@tg.kernel
def copy_plus_one(x: tg.array[int], y: tg.array[int]):
    i = tg.tid()
    t = tg.tile_load(x, shape=8, offset=i * 8)
    tg.tile_store(y, t + 1, offset=i * 8)


@tg.kernel
def copy_plus_one_in_loop(x: tg.array[int], y: tg.array[int]):
    for k in range(4):
        t = tg.tile_load(x, shape=4, offset=k * 4)
        tg.tile_store(y, t + 1, offset=k * 4)


@tg.kernel
def copy_plus_one_by_lane(x: tg.array[int], y: tg.array[int]):
    i, j = tg.tid()
    for k in range(16):
        if j == 0:
            y[k] = x[k] + 1


OVERLAPS = [(0, 1), (1, 0), (0, 3), (2, 1), (0, 0)]


@pytest.mark.parametrize(("source", "target"), OVERLAPS)
@pytest.mark.parametrize("kernel", [copy_plus_one_in_loop, copy_plus_one_by_lane], ids=lambda k: k.name)
def test_overlapping_arguments_keep_statement_order(kernel: object, source: int, target: int) -> None:
    def views(base: tg.array) -> list[tg.array]:
        return [base[source : source + 16], base[target : target + 16]]

    device_array = tg.array(np.arange(20, dtype=np.int32))
    reference = tg.clone(device_array, device="cpu")
    tg.launch_tiled(kernel, dim=1, inputs=views(device_array), block_dim=4)
    interpret(kernel, views(reference), (1, 4), 4)
    np.testing.assert_array_equal(device_array.numpy(), reference.numpy())


def test_shifted_views_of_one_array_keep_statement_order() -> None:
    x = tg.array(np.arange(9, dtype=np.int32))
    tg.launch_tiled(copy_plus_one, dim=1, inputs=[x[:-1]], outputs=[x[1:]], block_dim=4)
    assert x.list() == [0, *range(1, 9)]
    y = tg.array(np.arange(9, dtype=np.int32))
    tg.launch_tiled(copy_plus_one, dim=1, inputs=[y[1:]], outputs=[y[:-1]], block_dim=4)
    assert y.list() == [*range(2, 10), 8]


def test_one_kernel_is_correct_for_disjoint_and_overlapping_arguments() -> None:
    for _ in range(2):
        x, y = tg.array(np.arange(16, dtype=np.int32)), tg.zeros(16, dtype=int)
        tg.launch_tiled(copy_plus_one_in_loop, dim=1, inputs=[x, y], block_dim=4)
        assert y.list() == list(range(1, 17))
        tg.launch_tiled(copy_plus_one_in_loop, dim=1, inputs=[x[:-4], x[4:]], block_dim=4)
        assert x.list()[:8] == [0, 1, 2, 3, 1, 2, 3, 4]


@tg.kernel
def load_after_store(x: tg.array[int], o: tg.array[int]):
    loaded = tg.tile_load(x, shape=4)
    tg.tile_store(x, loaded * 10)
    reloaded = tg.tile_load(x, shape=4)
    tg.tile_store(o, loaded)
    tg.tile_store(o, reloaded, offset=4)


def test_a_load_after_a_store_of_one_array_reads_the_stored_value() -> None:
    x, o = agree(
        load_after_store, [tg.array(np.arange(4, dtype=np.int32)), tg.zeros(8, dtype=int)], 1, 2, tiled=True
    )
    assert o.tolist() == [0, 1, 2, 3, 0, 10, 20, 30] and x.tolist() == [0, 10, 20, 30]


# Access classes ------------------------------------------------------------------------------------------------------


@tg.kernel
def copy_2d(x: tg.array2d[float], y: tg.array2d[float]):
    i, j = tg.tid()
    t = tg.tile_load(x, shape=(4, 8), offset=(i * 4, j * 8))
    tg.tile_store(y, t, offset=(i * 4, j * 8))


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "packed": lambda base: base.reshape((40, 40)),
    "odd rows": lambda base: base[: 39 * 37].reshape((39, 37)),
    "offset by one element": lambda base: base[1 : 1 + 30 * 30].reshape((30, 30)),
    "every second column": lambda base: base.reshape((40, 40))[:, ::2],
    "every third row": lambda base: base.reshape((40, 40))[::3],
    "transposed": lambda base: base.reshape((40, 40)).transpose(),
    "reversed": lambda base: base.reshape((40, 40))[::-1, ::-1],
    "one column": lambda base: base.reshape((40, 40))[:, 5:6],
    "empty": lambda base: base.reshape((40, 40))[:0],
}
"""Functions from an array of 1600 elements to a view, for Tegula arrays and NumPy arrays."""


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_access_class_reads_and_writes_the_same(layout: str) -> None:
    values, view = np.arange(40 * 40, dtype=np.float32), LAYOUTS[layout]
    x = view(values)
    rows, columns = x.shape
    grid = (-(-rows // 4), -(-columns // 8))
    out = tg.zeros((max(rows, 1), columns))
    tg.launch_tiled(copy_2d, dim=grid, inputs=[view(tg.array(values)), out], block_dim=32)
    np.testing.assert_array_equal(out.numpy()[:rows], x)
    memory = tg.full(2000, -1.0)
    tg.launch_tiled(copy_2d, dim=grid, inputs=[tg.array(x), view(memory[4:1604])], block_dim=32)
    memory_after = memory.numpy()
    np.testing.assert_array_equal(view(memory_after[4:1604]), x)
    assert (memory_after == -1).sum() == memory_after.size - x.size


class RepeatedRow:
    """An object that exposes a row of an array, repeated, by the protocols of other libraries."""

    def __init__(self, row: tg.array, count: int) -> None:
        name = "__array_interface__" if str(row.device) == "cpu" else "__cuda_array_interface__"
        setattr(self, name, getattr(row, name) | {"shape": (count, *row.shape), "strides": (0, *row.strides)})


def test_a_broadcast_row_is_read_correctly() -> None:
    row, out = tg.array(np.arange(40, dtype=np.float32)), tg.zeros((20, 40))
    x = tg.array(RepeatedRow(row, 20), copy=False)
    assert x.ptr == row.ptr
    tg.launch_tiled(copy_2d, dim=(5, 5), inputs=[x, out], block_dim=32)
    np.testing.assert_array_equal(out.numpy(), np.broadcast_to(row.numpy(), out.shape))


@tg.kernel
def row_views(x: tg.array4d[float], y: tg.array[float]):
    i, j = tg.tid()
    t = tg.tile_load(x[i][j], shape=(2, 4), offset=(1, 0))
    tg.tile_store(y, tg.tile_sum(t), offset=i * 3 + j)


def test_views_by_uniform_indices_match_numpy() -> None:
    x = np.random.default_rng(1).integers(-9, 9, (2, 3, 5, 4)).astype(np.float32)
    *_, y = agree(row_views, [tg.array(x), tg.zeros(6)], (2, 3), 8, tiled=True)
    np.testing.assert_array_equal(y, x[:, :, 1:3].sum((2, 3)).ravel())


@tg.kernel
def load_past_edges(x: tg.array2d[float], y: tg.array2d[float]):
    t = tg.tile_load(x, shape=(4, 4), offset=(-1, 3), fill=7.0)
    tg.tile_store(y[0:4], t)
    u = tg.tile_load(x, shape=(4, 4), offset=(3, -2))
    tg.tile_store(y, u, offset=(4, 0))
    tg.tile_store(y, t, offset=(-2, 6))


def test_out_of_bounds_elements_read_the_fill_and_are_dropped() -> None:
    x = np.arange(1, 26, dtype=np.float32).reshape(5, 5)
    _, y = agree(load_past_edges, [tg.array(x), tg.zeros((8, 8))], 1, 4, tiled=True)
    upper = np.full((4, 4), 7, np.float32)
    upper[1:, :2] = x[:3, 3:]
    lower = np.zeros((4, 4), np.float32)
    lower[:2, 2:] = x[3:, :2]
    np.testing.assert_array_equal(y[:4, :4], upper)
    np.testing.assert_array_equal(y[4:, :4], lower)
    np.testing.assert_array_equal(y[:2, 6:], upper[2:, :2])


# Debug mode ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def debug() -> Iterator[None]:
    tg.config.mode = "debug"
    yield
    tg.config.mode = "release"


@tg.kernel
def store_past_the_end(first: tg.array[int], second: tg.array[int]):
    i = tg.tid()
    first[i] = 1
    second[i + 2] = i
    first[i] = 2


@pytest.mark.usefixtures("debug")
def test_an_access_out_of_bounds_is_reported_and_dropped() -> None:
    first, second = tg.zeros(4, dtype=int), tg.zeros(4, dtype=int)
    with pytest.raises(tg.OutOfBounds) as raised:
        tg.launch(store_past_the_end, 4, inputs=[first, second], block_dim=4)
        tg.synchronize()
    text = str(raised.value)
    line = store_past_the_end.definition.location.line + 4
    assert f"test_arrays.py:{line}:" in text and "kernel store_past_the_end" in text
    assert "'second'" in text and "(4,)" in text and "thread 2" in text
    assert second.list() == [0, 0, 0, 1] and first.list() == [2] * 4
    tg.launch(store_past_the_end, 2, inputs=[first, second], block_dim=2)


@tg.kernel
def assert_small(x: tg.array[int], o: tg.array[int]):
    i = tg.tid()
    assert x[i] < 3, "too large"
    o[i] = x[i]


def test_a_failed_assert_reports_its_line_and_thread() -> None:
    o = tg.zeros(5, dtype=int)
    with pytest.raises(tg.KernelAssertion) as raised:
        tg.launch(assert_small, 5, inputs=[tg.array(np.arange(5, dtype=np.int32)), o], block_dim=4)
        tg.synchronize()
    text = str(raised.value)
    assert "too large" in text and "kernel assert_small" in text and "thread 3" in text
    assert f"test_arrays.py:{assert_small.definition.location.line + 3}:" in text


@tg.kernel
def divide(x: tg.array[int], o: tg.array[int]):
    i = tg.tid()
    o[i] = 10 // x[i]


@pytest.mark.usefixtures("debug")
def test_division_by_zero_is_an_error_in_debug_mode() -> None:
    o = tg.zeros(3, dtype=int)
    with pytest.raises(tg.TegulaError) as raised:
        tg.launch(divide, 3, inputs=[tg.array(np.array([1, 0, 2], np.int32)), o], block_dim=4)
        tg.synchronize()
    assert "10 // x[i]" in str(raised.value)


def test_division_by_zero_is_zero_otherwise() -> None:
    *_, o = agree(divide, [tg.array(np.array([1, 0, -3], np.int32)), tg.zeros(3, dtype=int)], 3, 4)
    assert o.tolist() == [10, 0, -4]


# Atomics, strides, dtypes --------------------------------------------------------------------------------------------


@tg.kernel
def atomics(a: tg.array[int], old: tg.array[int]):
    i = tg.tid()
    tg.atomic_add(a, 0, i)
    tg.atomic_sub(a, 1, 1)
    tg.atomic_min(a, 2, 50 - i)
    tg.atomic_max(a, 3, i)
    tg.atomic_and(a, 4, ~(1 << i))
    tg.atomic_or(a, 5, 1 << i)
    tg.atomic_xor(a, 6, 1 << i)
    old[i] = tg.atomic_add(a, 7, 1)


def test_atomics_of_arrays_match_numpy() -> None:
    start = np.array([0, 0, 99, -99, -1, 0, 5, 100], np.int32)
    a, old = tg.array(start), tg.zeros(20, dtype=int)
    tg.launch(atomics, 20, inputs=[a, old], block_dim=8)
    bits = (1 << 20) - 1
    assert a.list() == [190, -20, 31, 19, ~bits, bits, 5 ^ bits, 120]
    assert sorted(old.list()) == list(range(100, 120))


@tg.kernel
def cas_loop(a: tg.array[int]):
    observed = a[0]
    while True:
        previous = tg.atomic_cas(a, 0, observed, observed + 2)
        if previous == observed:
            break
        observed = previous


def test_compare_and_swap_loops_count_every_thread() -> None:
    a = tg.zeros(1, dtype=int)
    tg.launch(cas_loop, 500, inputs=[a], block_dim=64)
    assert a.list() == [1000]
