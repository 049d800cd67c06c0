"""Dimensions of a tile share a loop if all accessed memory allows it, and loops have few tests and counters."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tegula as tg
from tegula.codegen.storage import View
from tegula.codegen.sweep import merged_views
from tegula.types import float32

pytestmark = pytest.mark.usefixtures("unoptimised")
SHAPE = (5, 3, 4, 16)
PACKED = (192, 64, 16, 1)


@pytest.mark.parametrize(
    ("strides", "merged"),
    [
        (PACKED, {0, 1}),
        ((256, 64, 16, 1), {1}),
        ((192, 16, 48, 1), set()),
        ((0, 0, 16, 1), {0}),
        ((0, 0, 0, 1), {0, 1}),
        ((64, 0, 0, 1), {1}),
    ],
)
def test_dimensions_merge_where_the_next_element_follows(strides: tuple[int, ...], merged: set[int]) -> None:
    packed, view = View("%p", float32, SHAPE, PACKED), View("%q", float32, SHAPE, strides)
    assert merged_views(packed, packed) == {0, 1}
    assert merged_views(view, view) == merged_views(view, packed) == merged_views(packed, view) == merged


@pytest.mark.machine_code
def test_repeated_and_permuted_elements_are_computed_in_merged_loops() -> None:
    rows, columns, n = 20, 24, 16

    @tg.kernel
    def combined(a: tg.array3d[float], out: tg.array3d[float]):
        t = tg.tile_load(a, shape=(rows, columns, n))
        last = tg.tile_reshape(tg.tile_sum(t, axis=0)[3], (1, 1, n))
        x = t * tg.tile_broadcast(last, (rows, columns, n))
        y = tg.tile_permute(x, (1, 0, 2))
        z = tg.tile_permute(y + y, (1, 0, 2)) - x
        tg.tile_store(out, z * z)

    a = np.random.default_rng(0).integers(-4, 5, (rows, columns, n)).astype(np.float32)
    out = tg.zeros(a.shape)
    tg.launch_tiled(combined, dim=[1], inputs=[tg.array(a), out], block_dim=1)
    np.testing.assert_array_equal(out.numpy(), (a * a.sum(axis=0)[3]) ** 2)
    assert re.search(rf"icmp ne i64 %\w+, {rows * columns}$", combined.llvm(), re.M)


@pytest.mark.machine_code
@pytest.mark.parametrize(("first", "stop", "step"), [(0, 7, 1), (3, -9, -4), (2, 8, 3)])
def test_a_loop_with_literal_bounds_has_one_test_for_each_iteration(first: int, stop: int, step: int) -> None:
    n = 16

    @tg.kernel
    def counted(out: tg.array[int]):
        t = tg.tile_zeros(shape=n, dtype=int)
        for k in range(first, stop, step):
            t[tg.abs(k)] = t[tg.abs(k)] + k + 100
        tg.tile_store(out, t)

    out, expected = tg.zeros(n, dtype=int), np.zeros(n, int)
    tg.launch_tiled(counted, dim=[1], inputs=[out], block_dim=1)
    for k in range(first, stop, step):
        expected[abs(k)] += k + 100
    np.testing.assert_array_equal(out.numpy(), expected)
    header = re.search(r"^for\d+:\n((?:  %\w+ = phi i32 .*\n)+)(.*)", counted.llvm(), re.M)
    assert header is not None
    assert header[1].count("\n") == (1 if (first, step) == (0, 1) else 2)
    assert "icmp ult" not in header[2]
