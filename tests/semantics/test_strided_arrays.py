"""Tiles of arrays whose dimensions are in any order in memory, and strided."""

from __future__ import annotations

import numpy as np
import pytest

import tegula as tg

ROWS, COLUMNS = 8, 12


@tg.kernel
def scale_tiles(
    x: tg.array3d[float], y: tg.array3d[float], row_sums: tg.array2d[float], column_sums: tg.array2d[float]
):
    b, i, j = tg.tid()
    t = 2.0 * tg.tile_load(x[b], shape=(ROWS, COLUMNS), offset=(i * ROWS, j * COLUMNS))
    tg.tile_store(y[b], t + 1.0, offset=(i * ROWS, j * COLUMNS))
    tg.tile_atomic_add(row_sums[b], tg.tile_reduce(tg.add, t, axis=1), offset=i * ROWS)
    tg.tile_atomic_add(column_sums[b], tg.tile_reduce(tg.add, t, axis=0), offset=j * COLUMNS)


def in_order(values: np.ndarray, order: tuple[int, ...], step: int) -> tg.array:
    """An array with these elements whose dimensions are in this order in memory, every `step`-th element of the last of
    them."""
    ordered = values.transpose(order)
    memory = np.zeros((*ordered.shape[:-1], ordered.shape[-1] * step), np.float32)
    memory[..., ::step] = ordered
    return tg.array(memory)[:, :, ::step].transpose(np.argsort(order).tolist())


ORDERS = [(0, 1, 2), (0, 2, 1), (1, 2, 0), (2, 1, 0)]


@pytest.mark.machine_code
@pytest.mark.parametrize("block_dim", [32, pytest.param(128, marks=pytest.mark.slow(every=1))])
@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("source", ORDERS)
@pytest.mark.parametrize("result", ORDERS[:2])
def test_tiles_of_arrays_in_any_order(
    source: tuple[int, ...], result: tuple[int, ...], step: int, block_dim: int
) -> None:
    values = np.random.default_rng(0).integers(-99, 99, (2, 21, 31)).astype(np.float32)
    x, y = in_order(values, source, step), in_order(np.zeros_like(values), result, step)
    row_sums, column_sums = tg.zeros((2, 21)), tg.zeros((2, 31))
    np.testing.assert_array_equal(x.numpy(), values)
    tg.launch_tiled(scale_tiles, (2, 3, 3), [x], [y, row_sums, column_sums], block_dim=block_dim)
    np.testing.assert_array_equal(y.numpy(), 2 * values + 1)
    np.testing.assert_array_equal(row_sums.numpy(), 2 * values.sum(axis=2))
    np.testing.assert_array_equal(column_sums.numpy(), 2 * values.sum(axis=1))
