"""Launches whose CTAs compute blocks of another size than the blocks of the launch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tegula as tg

pytestmark = pytest.mark.gpu

bf16 = tg.bfloat16


def matmul_of(tm: int, tn: int, tk: int, **options: Any) -> Any:
    @tg.kernel(**options)
    def matmul(a: tg.array2d[bf16], b: tg.array2d[bf16], bias: tg.array1d[float], c: tg.array2d[bf16]):
        i, j = tg.tid()
        total = tg.tile_zeros(shape=(tm, tn), dtype=float)
        for k in range((a.shape[1] + tk - 1) // tk):
            x = tg.tile_load(a, shape=(tm, tk), offset=(i * tm, k * tk))
            tg.tile_matmul(x, tg.tile_load(b, shape=(tk, tn), offset=(k * tk, j * tn)), total)
        row = tg.tile_reshape(tg.tile_load(bias, shape=tn, offset=j * tn), shape=(1, tn))
        total = total + tg.tile_broadcast(row, shape=(tm, tn))
        tg.tile_store(c, tg.tile_astype(total, bf16), offset=(i * tm, j * tn))

    return matmul


@pytest.mark.parametrize(
    ("tile", "grid"),
    [
        ((64, 64, 64), (41, 45)),
        ((64, 64, 32), (64, 64)),
        ((128, 96, 64), (32, 43)),
        ((64, 128, 32), (67, 33)),
        ((128, 256, 64), (12, 6)),
        ((128, 256, 64), (7, 11)),
        ((80, 80, 64), (52, 52)),
        ((128, 192, 64), (32, 22)),
        ((96, 160, 64), (5, 6)),
        ((256, 256, 64), (9, 5)),
    ],
)
def test_blocks_of_another_size_have_the_bits_of_the_blocks_of_the_launch(
    tile: tuple[int, int, int], grid: tuple[int, int]
) -> None:
    (tm, tn, tk), (rows, columns) = tile, grid
    m, n, k = rows * tm - 24, columns * tn - 16, 192
    rng = np.random.default_rng(m)
    a, b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    bias = rng.integers(-9, 10, n).astype(np.float32)
    arguments = [
        tg.array(a, dtype=bf16, device="cuda"),
        tg.array(b, dtype=bf16, device="cuda"),
        tg.array(bias, device="cuda"),
    ]
    results: list[np.ndarray] = []
    for options in ({}, {"persistent": False}):
        kernel, c = matmul_of(tm, tn, tk, **options), tg.zeros((m, n), dtype=bf16, device="cuda")
        tg.launch_tiled(kernel, grid, arguments, [c], block_dim=128)
        assert ("blocks of the launch" in kernel.explain()) == (not options)
        results.append(c.numpy())
    expected = a.astype(np.float64) @ b + bias
    assert np.array_equal(np.asarray(results[0], np.float64), np.asarray(results[1], np.float64))
    assert np.max(np.abs(np.asarray(results[0], np.float64) - expected) / (1 + np.abs(expected))) < 2**-8


def test_launches_of_a_kernel_have_blocks_that_suit_their_grids() -> None:
    """Launches of many grids share few forms."""
    kernel = matmul_of(64, 64, 64)
    for size in (512, 4096, 512, 4032, 448, 4096):
        a = tg.full((size, 64), 1.0, dtype=bf16, device="cuda")
        b = tg.full((64, size), 2.0, dtype=bf16, device="cuda")
        bias, c = tg.zeros(size, device="cuda"), tg.zeros((size, size), dtype=bf16, device="cuda")
        tg.launch_tiled(kernel, (size // 64, size // 64), [a, b, bias], [c], block_dim=128)
        assert np.all(np.asarray(c.numpy(), np.float32) == 128)
    scales = [form.kernel.launch.scale for form in kernel.compiled]
    assert len(scales) == len(set(scales)) == 2 and () in scales


@tg.kernel
def add_matmul(a: tg.array2d[bf16], b: tg.array2d[bf16], c: tg.array2d[float]):
    i, j = tg.tid()
    total = tg.tile_zeros(shape=(64, 64), dtype=float)
    for k in range(a.shape[1] // 64):
        x = tg.tile_load(a, shape=(64, 64), offset=(i * 64, k * 64))
        tg.tile_matmul(x, tg.tile_load(b, shape=(64, 64), offset=(k * 64, j * 64)), total)
    tg.tile_atomic_add(c, total, offset=(i * 64, j * 64))


@pytest.mark.parametrize("columns", [40, 41])
def test_blocks_of_another_size_add_each_element_once(columns: int) -> None:
    m, n, k = 32 * 64, columns * 64, 128
    rng = np.random.default_rng(columns)
    a, b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    c = tg.full((m, n), 3.0, device="cuda")
    arguments = [tg.array(x, dtype=bf16, device="cuda") for x in (a, b)]
    tg.launch_tiled(add_matmul, (32, columns), arguments, [c], block_dim=128)
    assert np.array_equal(c.numpy(), a @ b + 3)
