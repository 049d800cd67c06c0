"""Blocks of 2-CTA clusters that fetch for each other: matmuls of rows that are odd multiples of 16 bytes, compared with
the same numbers in rows of whole sectors, which each block fetches by itself."""

from __future__ import annotations

import numpy as np
import pytest

import tegula as tg
from tegula.kernels import gemm, matmul, shapes

SIZES = [(300, 712, 264), (129, 8, 8), (3000, 1288, 520), (257, 2056, 1096), (8200, 24, 136)]


def numbers(rows: int, columns: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32)


def array_on_device(x: np.ndarray, width: int) -> tg.array:
    """A bfloat16 array with rows of a given length."""
    wide_rows = tg.zeros((x.shape[0], width), dtype=tg.bfloat16, device="cuda:0")
    part = wide_rows[:, slice(x.shape[1])]
    tg.copy(part, tg.array(x, dtype=tg.bfloat16, device="cuda:0"))
    return part


def aligned(n: int) -> int:
    return -(-n // 16) * 16


@pytest.mark.parametrize("tile", shapes.TENSOR_CORES, ids=lambda t: f"{t.rows}x{t.columns}")
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_matmuls_in_clusters_have_the_bits_of_single_blocks(
    size: tuple[int, int, int], tile: shapes.Tile
) -> None:
    m, n, k = size
    a, b = numbers(m, k, 1), numbers(k, n, 2)
    actual, expected = (tg.full((m, n), float("nan"), dtype=tg.bfloat16, device="cuda:0") for _ in range(2))
    matmul(array_on_device(a, k), array_on_device(b, n), actual, tile=tile)
    matmul(array_on_device(a, aligned(k)), array_on_device(b, aligned(n)), expected, tile=tile)
    assert np.array_equal(actual.numpy().view(np.uint16), expected.numpy().view(np.uint16))


@pytest.mark.parametrize("blocks", [1, 2, 3, 6, 7, 132])
def test_matmuls_in_clusters_take_any_number_of_blocks(blocks: int) -> None:
    """An odd number of blocks does not form clusters."""
    m, n, k, tile = 700, 520, 328, shapes.TENSOR_CORES[0]
    a, b = array_on_device(numbers(m, k, 1), k), array_on_device(numbers(k, n, 2), n)
    actual, expected = (tg.full((m, n), float("nan"), dtype=tg.bfloat16, device="cuda:0") for _ in range(2))
    kernel = gemm.matmul_kernel(tg.bfloat16, tile, False, gemm.Epilogue(tg.bfloat16))
    tg.launch_tiled(kernel, blocks, [a, b, 0, 1.0, 0.0], [actual])
    tg.launch_tiled(kernel, 1, [a, b, 0, 1.0, 0.0], [expected])
    assert kernel.compiled[-1].clustered
    assert np.array_equal(actual.numpy().view(np.uint16), expected.numpy().view(np.uint16))
