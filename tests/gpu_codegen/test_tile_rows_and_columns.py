"""Rows, columns and elements of tiles that threads take from registers and by shuffles, run by the model of
instructions, and by the interpreter with a check for races."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu_code import assemble, run_gpu_passes
from lowering import run_lowered, tiled
from simt import run_together

import tegula as tg
from tegula.codegen.gpu import lower_kernel
from tegula.ops.buffer import BufNew
from tegula.ops.control import For
from tegula.ops.tile import TileExtract, TileSlice
from tegula.target import get_cuda_target


def run_in_interpreter_and_model(kernel: Any, args: list[Any], block_dim: int) -> tuple[Any, Any]:
    """Run the lowered kernel in the interpreter and as GPU code, whose results must be equal. Returns the kernel and
    the code."""
    lowered_kernel, compilation = run_gpu_passes(kernel, args, (1,), block_dim)
    launch = tiled(kernel, args, (1,), block_dim)
    expected, _ = run_lowered(lowered_kernel, compilation, launch)
    code = lower_kernel(lowered_kernel, compilation, get_cuda_target())
    run_together(code, kernel, args, (1, block_dim), 1)
    for a, b in zip(args, expected, strict=True):
        if isinstance(a, tg.array):
            np.testing.assert_array_equal(a.numpy(), b)
    return lowered_kernel, code


ROWS, COLUMNS = 12, 5


@tg.kernel
def combine_rows_and_columns(
    x: tg.array2d[float], columns: tg.array1d[int], rows: tg.array2d[float], sums: tg.array1d[float]
):
    a = tg.tile_load(x, shape=(ROWS, COLUMNS))
    total = tg.tile_zeros(shape=(ROWS,), dtype=float)
    for k in range(COLUMNS):
        p = columns[k]
        column = a[:, p]
        total = total + column * a[k, COLUMNS - 1 - k]
        a = a + tg.tile_reshape(column, (ROWS, 1)) * tg.tile_reshape(a[:, k], (ROWS, 1)) * a[p, k]
    tg.tile_store(rows, a)
    tg.tile_store(sums, total)


@pytest.mark.machine_code
def test_columns_and_elements_of_tiles_at_computed_indices_match_the_interpreter() -> None:
    rng = np.random.default_rng(3)
    x = rng.uniform(-0.5, 0.5, (ROWS, COLUMNS)).astype(np.float32)
    columns = rng.permutation(COLUMNS).astype(np.int32)
    a, total = x.astype(np.float64), np.zeros(ROWS)
    for k, p in enumerate(columns):
        total += a[:, p] * a[k, COLUMNS - 1 - k]
        a = a + (a[:, p] * a[:, k] * a[p, k])[:, None]
    args = [tg.array(x), tg.array(columns), tg.zeros((ROWS, COLUMNS)), tg.zeros(ROWS)]
    result, _ = run_in_interpreter_and_model(combine_rows_and_columns, args, 32)
    np.testing.assert_allclose(args[2].numpy(), a, rtol=1e-4)
    np.testing.assert_allclose(args[3].numpy(), total, rtol=1e-4)
    assert not any(isinstance(op, For) for op in result.walk()), "the loop is not unrolled"
    assert any(isinstance(op, TileSlice) for op in result.walk()), "no row or column stays in registers"


def cholesky_kernel(n: int) -> Any:
    @tg.kernel
    def factor(x: tg.array2d[float], out: tg.array2d[float]):
        factor, _ = tg._tile_cholesky_by_columns(tg.tile_load(x, shape=(n, n)))
        tg.tile_store(out, factor)

    return factor


@pytest.mark.slow
@pytest.mark.machine_code
def test_factors_of_decompositions_stay_in_registers() -> None:
    """A thread has one row."""
    n = 17
    rng = np.random.default_rng(4)
    m = rng.standard_normal((n, n))
    x = (m @ m.T + n * np.eye(n)).astype(np.float32)
    args = [tg.array(x), tg.zeros((n, n))]
    result, code = run_in_interpreter_and_model(cholesky_kernel(n), args, 32)
    np.testing.assert_allclose(args[1].numpy(), np.linalg.cholesky(x.astype(np.float64)), atol=1e-5)
    buffers = [op.tile.type.size for op in result.walk() if isinstance(op, BufNew)]
    assert sum(size == n * n for size in buffers) <= 2, "the matrix is written to memory in each step"
    assert any(isinstance(op, TileExtract) for op in result.walk())
    text, cubin = assemble(code)
    assert not cubin.spill_bytes
    assert "bar.sync" not in text and "shfl.sync.idx" in text
