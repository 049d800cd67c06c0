"""Gradients through tiles of indices of any integer type."""

from __future__ import annotations

import numpy as np
import pytest

import tegula as tg

pytestmark = pytest.mark.machine_code

D = tg.float64
ROWS = 4


@tg.kernel
def rows(x: tg.array2d[D], indices, y: tg.array2d[D]):
    t = tg.tile_load(x, shape=(4, 3))
    tg.tile_store(y, t[tg.tile_load(indices, shape=8)])


@tg.kernel
def columns(x: tg.array2d[D], indices, y: tg.array2d[D]):
    t = tg.tile_load(x, shape=(3, 4))
    tg.tile_store(y, t[:, tg.tile_load(indices, shape=8)])


def extreme_indices(dtype: type) -> list[int]:
    """Indices at the limits of the type, of the tile and of int32; the low bits of some out-of-bounds indices are in
    bounds."""
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    edge_indices = [
        0,
        ROWS - 1,
        ROWS,
        -1,
        -ROWS,
        -ROWS - 1,
        2**31,
        2**32,
        2**32 + 1,
        2**32 - 1,
        -(2**32),
        2**40 + 2,
    ]
    return [n for n in (*edge_indices, low, low + 1, high, high - 1) if low <= n <= high]


DEFAULT_RUN_CASES = ((rows, np.int64), (columns, np.int8))


@pytest.mark.parametrize(
    ("kernel", "dtype"),
    [
        pytest.param(kernel, dtype, marks=[] if (kernel, dtype) in DEFAULT_RUN_CASES else pytest.mark.slow)
        for kernel in (rows, columns)
        for dtype in (np.int8, np.uint8, np.int32, np.int64)
    ],
)
def test_gradients_of_gathers_reach_gathered_elements_only(kernel: tg.Kernel, dtype: type) -> None:
    all_indices = extreme_indices(dtype)
    for first in range(0, len(all_indices), 8):
        indices = np.resize(all_indices[first : first + 8], 8).astype(dtype)
        shape, result = ((4, 3), (8, 3)) if kernel is rows else ((3, 4), (3, 8))
        x = tg.ones(shape, dtype=D, requires_grad=True)
        y = tg.zeros(result, dtype=D, requires_grad=True)
        with tg.Tape() as tape:
            tg.launch_tiled(kernel, 1, [x, tg.array(indices)], [y], block_dim=32)
        tape.backward(grads={y: np.ones(result)})
        counts = np.zeros(ROWS)
        for n in indices.tolist():
            if -ROWS <= n < ROWS:
                counts[n] += 1
        expected = counts[:, None] if kernel is rows else counts
        assert np.array_equal(x.grad.numpy(), np.broadcast_to(expected, shape))
