"""Dimensions of a tile share a loop if all memory that the loop accesses allows it."""

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
