"""Launches of blocks of one warp, of which several share a CTA."""

from __future__ import annotations

import numpy as np
import pytest

import tegula as tg

pytestmark = pytest.mark.gpu


@tg.kernel
def gather_and_sum(
    a: tg.array2d[float], gathered: tg.array2d[float], sums: tg.array1d[float], count: tg.array1d[int]
):
    i = tg.tid()
    row = tg.tile_load(a[i], 32)
    order = (tg.tile_arange(32, dtype=int) * 5 + i) % 32
    tg.tile_store(gathered[i], row[order])
    tg.tile_store(sums[i : i + 1], tg.tile_sum(row[::-1] * row))
    tg.tile_atomic_add(count, tg.tile_ones(1, dtype=int))


@pytest.mark.parametrize("blocks", [1, 9, 3001, 20_003])
def test_each_block_runs_once(blocks: int) -> None:
    a = np.arange(blocks * 32, dtype=np.float32).reshape(blocks, 32) % 19
    array = tg.array(a, device="cuda")
    gathered, sums = tg.zeros_like(array), tg.zeros(blocks, device="cuda")
    count = tg.zeros(1, dtype=int, device="cuda")
    tg.launch_tiled(gather_and_sum, blocks, [array, gathered, sums, count], block_dim=32)
    expected_sums = (np.arange(32) * 5 + np.arange(blocks)[:, None]) % 32
    np.testing.assert_array_equal(gathered.numpy(), np.take_along_axis(a, expected_sums, 1))
    np.testing.assert_array_equal(sums.numpy(), (a * a[:, ::-1]).sum(1))
    assert count.numpy()[0] == blocks


@pytest.mark.parametrize(
    ("function", "n"),
    [("cholesky", 4), ("cholesky", 8), ("cholesky", 13), ("cholesky", 40), ("lu", 8), ("eigh", 8)],
)
def test_batches_that_fill_the_device_have_the_bits_of_small_batches(function: str, n: int) -> None:
    rng = np.random.default_rng(5)
    m = rng.standard_normal((10_001, n, n)).astype(np.float32)
    x = m @ m.transpose(0, 2, 1) + np.eye(n, dtype=np.float32)
    run = getattr(tg.kernels, function)
    large_batch = run(tg.array(x, device="cuda"))
    small_batch = run(tg.array(x[-100:], device="cuda"))
    for a, b in zip(*(r if isinstance(r, tuple) else (r,) for r in (large_batch, small_batch)), strict=True):
        np.testing.assert_array_equal(a.numpy()[-100:], b.numpy())
    if function == "cholesky":
        np.testing.assert_allclose(large_batch.numpy(), np.linalg.cholesky(x.astype(np.float64)), atol=2e-4)
