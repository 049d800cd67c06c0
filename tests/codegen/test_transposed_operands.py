"""Matmuls of transposed tiles: read straight from their arrays where direct reads are faster, copied at edges and where
memory changes in between."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tegula as tg

pytestmark = pytest.mark.machine_code

T = 64


@tg.kernel
def matmul_of_transposes(a: tg.array2d[Any], b: tg.array2d[Any], c: tg.array2d[Any]):
    i, j = tg.tid()
    total = tg.tile_zeros(shape=(T, T), dtype=c.dtype)
    for k in range((a.shape[0] + T - 1) // T):
        x = tg.tile_load(a, shape=(T, T), offset=(k * T, i * T))
        y = tg.tile_load(b, shape=(T, T), offset=(j * T, k * T))
        tg.tile_matmul(tg.tile_transpose(x), tg.tile_transpose(y), total)
    tg.tile_store(c, total, offset=(i * T, j * T))


@tg.kernel
def overwritten(a: tg.array2d[float], b: tg.array2d[float], c: tg.array2d[float]):
    """A matmul whose right operand is the old content of an overwritten array."""
    y = tg.tile_transpose(tg.tile_load(b, shape=(T, T)))
    tg.tile_store(b, tg.tile_zeros(shape=(T, T), dtype=float))
    total = tg.tile_zeros(shape=(T, T), dtype=float)
    tg.tile_matmul(tg.tile_load(a, shape=(T, T)), y, total)
    tg.tile_store(c, total)


@tg.kernel
def transpose_with_two_uses(a: tg.array2d[float], c: tg.array2d[float]):
    """A transpose that is both operands of a matmul, and is added to the result."""
    x = tg.tile_transpose(tg.tile_load(a, shape=(T, T)))
    tg.tile_store(c, x @ x + x)


def integers(*shape: int, dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


SUMS = {np.float16: tg.float32, np.float32: tg.float32, np.float64: tg.float64, np.int8: tg.int32}


@pytest.mark.parametrize("dtype", SUMS)
@pytest.mark.parametrize("size", [(128, 192, 128), (100, 70, 90), (64, 1, 65), (70, 0, 3)])
def test_matmuls_of_transposed_tiles_match_numpy(size: tuple[int, int, int], dtype: Any) -> None:
    m, k, n = size
    a, b = integers(k, m, dtype=dtype), integers(n, k, dtype=dtype, seed=1)
    c = tg.full((m, n), 7, dtype=SUMS[dtype])
    grid = (-(-m // T), -(-n // T))
    tg.launch_tiled(matmul_of_transposes, grid, [tg.array(a), tg.array(b)], [c], block_dim=64)
    assert np.array_equal(c.numpy(), a.T.astype(np.float64) @ b.T.astype(np.float64))


def test_a_transposed_tile_with_another_use_is_correct() -> None:
    a, c = integers(T, T), tg.zeros((T, T))
    tg.launch_tiled(transpose_with_two_uses, 1, [tg.array(a)], [c], block_dim=64)
    assert np.array_equal(c.numpy(), a.T @ a.T + a.T)


def test_matmuls_of_transposed_tiles_with_strided_rows_match_numpy() -> None:
    a, b = integers(128, 256)[:, 64:192], integers(256, 128, seed=1)[::2]
    c = tg.zeros((128, 128))
    tg.launch_tiled(matmul_of_transposes, (2, 2), [tg.array(a), tg.array(b)], [c], block_dim=64)
    assert np.array_equal(c.numpy(), a.T @ b.T)


def test_transposed_operands_are_read_before_their_elements_are_overwritten() -> None:
    a, b = integers(T, T), integers(T, T, seed=1)
    overwritten_array, c = tg.array(b), tg.zeros((T, T))
    tg.launch_tiled(overwritten, 1, [tg.array(a), overwritten_array], [c], block_dim=64)
    assert np.array_equal(c.numpy(), a @ b.T) and not overwritten_array.numpy().any()
