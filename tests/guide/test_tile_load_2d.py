"""The guide's 2-D tile load, completed by a store of the sums."""

import numpy as np
import pytest

import tegula as tg

pytestmark = pytest.mark.machine_code

TILE_M = tg.constant(16)
TILE_N = tg.constant(16)
TILE_THREADS = 64


@tg.kernel
def compute(array: tg.array2d[float], sums: tg.array2d[float]):
    i, j = tg.tid()
    t = tg.tile_load(array, shape=(TILE_M, TILE_N), offset=(i * TILE_M, j * TILE_N))
    s = tg.tile_sum(t)
    sums[i, j] = s[0]


@pytest.mark.parametrize(("rows", "columns"), [(2, 3), (1, 1), (4, 1)])
def test_each_block_sums_its_tile_of_two_dimensions(rows: int, columns: int) -> None:
    values = np.random.default_rng(2).integers(-9, 9, (rows * 16, columns * 16)).astype(np.float32)
    a, sums = tg.array(values), tg.zeros((rows, columns))
    dim = [a.shape[0] / TILE_M, a.shape[1] / TILE_N]
    tg.launch_tiled(compute, dim=[int(n) for n in dim], inputs=[a, sums], block_dim=TILE_THREADS)
    expected = values.reshape(rows, 16, columns, 16).sum((1, 3))
    np.testing.assert_array_equal(sums.numpy(), expected)


def test_launches_take_whole_floats_as_grid_dimensions() -> None:
    a, sums = tg.ones((32, 16)), tg.zeros((2, 1))
    dim = [a.shape[0] / TILE_M, a.shape[1] / TILE_N]
    tg.launch_tiled(compute, dim=dim, inputs=[a, sums], block_dim=TILE_THREADS)
    np.testing.assert_array_equal(sums.numpy(), [[256], [256]])
