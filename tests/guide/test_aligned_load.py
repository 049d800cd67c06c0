"""The guide's aligned loads and stores of shared tiles, and the same without the promise."""

import numpy as np
import pytest
from agreement import agree

import tegula as tg

pytestmark = pytest.mark.machine_code


@tg.kernel
def copy_aligned(data: tg.array2d[float], out: tg.array2d[float]):
    i = tg.tid()
    # Caller guarantees: contiguous array, 16-byte aligned, tile fits in bounds
    t = tg.tile_load(data, shape=(8, 32), offset=(i * 8, 0), storage="shared", aligned=True)
    tg.tile_store(out, t, offset=(i * 8, 0), aligned=True)


@tg.kernel
def copy_checked(data: tg.array2d[float], out: tg.array2d[float]):
    i = tg.tid()
    t = tg.tile_load(data, shape=(8, 32), offset=(i * 8, 0), storage="shared")
    tg.tile_store(out, t, offset=(i * 8, 0))


def test_aligned_loads_of_padded_rows_match_numpy() -> None:
    data_np = np.random.default_rng(11).random((24, 30), dtype=np.float32)
    data_np = np.pad(data_np, ((0, 0), (0, 2)), mode="constant")
    data = tg.array(data_np, dtype=float)
    for kernel in (copy_aligned, copy_checked):
        _, out = agree(kernel, [data, tg.zeros((24, 32))], 3, 64, tiled=True)
        np.testing.assert_array_equal(out, data_np)


def test_loads_of_unaligned_rows_take_the_checked_path() -> None:
    data = np.random.default_rng(12).random((20, 35), dtype=np.float32)
    out = tg.zeros((20, 35))
    tg.launch_tiled(copy_checked, dim=3, inputs=[tg.array(data), out], block_dim=64)
    np.testing.assert_array_equal(out.numpy()[:, :32], data[:, :32])
    assert not out.numpy()[:, 32:].any()
