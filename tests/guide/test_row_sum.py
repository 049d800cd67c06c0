"""The guide's first kernel: each block loads one row and sums it."""

import numpy as np
import pytest
from agreement import agree

import tegula as tg

pytestmark = pytest.mark.machine_code

TILE_SIZE = tg.constant(256)
TILE_THREADS = 64


@tg.kernel
def compute(a: tg.array2d[float], b: tg.array2d[float]):
    i = tg.tid()
    t = tg.tile_load(a[i], TILE_SIZE)
    s = tg.tile_sum(t)
    tg.tile_store(b[i], s)


def test_row_sums_match_the_guide() -> None:
    n = 10
    a_np = np.arange(n).reshape(-1, 1) * np.ones((1, 256), dtype=float)
    a = tg.array(a_np, dtype=float)
    b = tg.zeros((n, 1), dtype=float)
    tg.launch_tiled(compute, dim=[a.shape[0]], inputs=[a, b], block_dim=TILE_THREADS)
    expected = "b = [   0.  256.  512.  768. 1024. 1280. 1536. 1792. 2048. 2304.]"
    assert f"b = {b[:, 0]}" == expected


def test_row_sums_at_other_block_sizes_match_numpy() -> None:
    a = tg.array(np.random.default_rng(1).integers(-9, 9, (5, 256)), dtype=float)
    for block_dim in (1, 32, 100, 512):
        _, b = agree(compute, [a, tg.zeros((5, 1))], 5, block_dim, tiled=True)
        np.testing.assert_array_equal(b[:, 0], a.numpy().sum(1))
