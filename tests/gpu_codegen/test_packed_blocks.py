"""Blocks of one warp that share a CTA, run by the model of instructions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu_code import assemble, lower_to_llvm
from simt import run_together

import tegula as tg
from tegula.stdlib.tiles.lu import reference

BLOCKS = 7


@tg.kernel
def gather_and_sum(
    a: tg.array2d[float], gathered: tg.array2d[float], sums: tg.array1d[float], count: tg.array1d[int]
):
    i = tg.tid()
    row = tg.tile_load(a[i], 32)
    order = (tg.tile_arange(32, dtype=int) * 5 + i) % 32
    tg.tile_store(gathered[i], row[order])
    tg.tile_store(sums[i : i + 1], tg.tile_sum(row[::-1] * row))
    tg.tile_atomic_add(count, tg.tile_full(1, i, dtype=int))


def arguments() -> list[Any]:
    a = np.arange(BLOCKS * 32, dtype=np.float32).reshape(BLOCKS, 32) % 19
    return [tg.array(a), tg.zeros((BLOCKS, 32)), tg.zeros(BLOCKS), tg.zeros(1, dtype=int)]


@pytest.mark.machine_code
@pytest.mark.parametrize("warps_per_cta", [1, 4, 8])
def test_each_block_runs_once_with_separate_memory(warps_per_cta: int) -> None:
    args = arguments()
    code = lower_to_llvm(gather_and_sum, args, (BLOCKS,), 32)
    assert code.max_warps == 8 and code.part_bytes >= 128
    run_together(code, gather_and_sum, args, (BLOCKS, 32), -(-BLOCKS // warps_per_cta), rows=warps_per_cta)
    a, columns = args[0].numpy(), np.arange(32) * 5
    expected = np.stack([a[i, (columns + i) % 32] for i in range(BLOCKS)])
    np.testing.assert_array_equal(args[1].numpy(), expected)
    np.testing.assert_array_equal(args[2].numpy(), (a * a[:, ::-1]).sum(1))
    assert args[3].numpy()[0] == sum(range(BLOCKS))


@tg.kernel
def double(a: tg.array1d[float], b: tg.array1d[float]):
    i, j = tg.tid()
    b[i * 20 + j] = 2.0 * a[i * 20 + j]


@pytest.mark.machine_code
@pytest.mark.parametrize("warps_per_cta", [2, 8])
def test_threads_without_a_lane_and_warps_without_a_block_do_nothing(warps_per_cta: int) -> None:
    a, b = tg.array(np.arange(200, dtype=np.float32)), tg.zeros(200)
    code = lower_to_llvm(double, [a, b], (5,), 20)
    run_together(code, double, [a, b], (5, 20), -(-5 // warps_per_cta), rows=warps_per_cta)
    np.testing.assert_array_equal(b.numpy(), np.where(np.arange(200) < 100, 2 * a.numpy(), 0))


@tg.kernel
def column_sums(a: tg.array2d[tg.float64], sums: tg.array1d[tg.float64]):
    i = tg.tid()
    tg.tile_atomic_add(sums, tg.tile_load(a[i], 64))


@pytest.mark.machine_code
@pytest.mark.parametrize(("warps_per_cta", "ctas"), [(4, 1), (2, 3), (8, 2)])
def test_combined_blocks_of_several_warps_run_every_block_once(warps_per_cta: int, ctas: int) -> None:
    a, sums = tg.array(np.arange(640.0).reshape(10, 64)), tg.ones(64, dtype=tg.float64)
    code = lower_to_llvm(column_sums, [a, sums], (10,), 32)
    run_together(code, column_sums, [a, sums], (10, 32), ctas, rows=warps_per_cta)
    np.testing.assert_array_equal(sums.numpy(), 1 + a.numpy().sum(0))


@tg.kernel
def swap_neighbours(a: tg.array2d[float], b: tg.array2d[float]):
    i = tg.tid()
    x = tg.tile_load(a[i], 7000, storage="shared")
    tg.tile_store(b[i], x[tg.tile_arange(7000, dtype=int) ^ 1])


def test_blocks_of_several_warps_or_with_much_shared_memory_do_not_share_ctas() -> None:
    rows = [tg.zeros((1, 7000)) for _ in range(2)]
    assert lower_to_llvm(swap_neighbours, rows, (1,), 32).max_warps == 1
    assert lower_to_llvm(gather_and_sum, arguments(), (BLOCKS,), 64).max_warps == 1


def cholesky_kernel(n: int, in_place: bool = False) -> Any:
    @tg.kernel
    def kernel(a: tg.array3d[float], out: tg.array3d[float], info: tg.array2d[int]):
        i = tg.tid()
        factor, first = tg.tile_cholesky(tg.tile_load(a[i], shape=(n, n)), info=True)
        tg.tile_store(a[i] if tg.static(in_place) else out[i], factor)
        tg.tile_store(info[i], first)

    return kernel


def test_the_code_of_a_warp_has_no_divergence() -> None:
    """For threads that may diverge, ptxas would duplicate code. Blocks that share a warp access arrays in the same way,
    because their threads vote on accesses of 16 bytes."""
    text, cubin = assemble(lower_to_llvm(gather_and_sum, arguments(), (BLOCKS,), 32))
    assert ".maxntid 32, 8" in text and "bar.sync" not in text
    assert "COLLECTIVE" not in cubin.sass()
    arrays = [tg.zeros((BLOCKS, 8, 8)), tg.zeros((BLOCKS, 8, 8)), tg.zeros((BLOCKS, 1), dtype=int)]
    shared_warp = lower_to_llvm(cholesky_kernel(8), arrays, (BLOCKS,), 32)
    assert shared_warp.per_warp == 4
    assert "COLLECTIVE" not in assemble(shared_warp)[1].sass()


def matrices(matrix_count: int, n: int) -> np.ndarray:
    m = np.random.default_rng(7).standard_normal((matrix_count, n, n))
    return (m @ m.transpose(0, 2, 1) + n * np.eye(n)).astype(np.float32)


@pytest.mark.machine_code
@pytest.mark.parametrize(("n", "per_warp", "warps_per_cta"), [(3, 8, 1), (7, 4, 2), (12, 2, 1)])
def test_blocks_of_small_matrices_share_warps(n: int, per_warp: int, warps_per_cta: int) -> None:
    """The last warp has lanes without a block, and one matrix is not positive definite."""
    x = matrices(5, n)
    x[3, 1, 1] = -1.0
    args = [tg.array(x), tg.zeros((5, n, n)), tg.full((5, 1), -1, dtype=int)]
    code = lower_to_llvm(cholesky_kernel(n), args, (5,), 32)
    assert code.per_warp == per_warp
    run_together(
        code, cholesky_kernel(n), args, (5, 32), -(-5 // (per_warp * warps_per_cta)), rows=warps_per_cta
    )
    definite = [0, 1, 2, 4]
    expected = np.linalg.cholesky(x[definite].astype(np.float64))
    np.testing.assert_allclose(args[1].numpy()[definite], expected, atol=1e-5)
    np.testing.assert_array_equal(args[2].numpy()[:, 0], [0, 0, 0, 2, 0])


def subtract_columns(has_loop: bool) -> Any:
    @tg.kernel
    def kernel(a: tg.array3d[float], out: tg.array3d[float], counts: tg.array2d[int]):
        i = tg.tid()
        tile = tg.tile_load(a[i], shape=(8, 8))
        for k in range(8):
            tile = tile - tg.tile_reshape(tile[:, k], (8, 1))
        if tg.static(has_loop):
            for _ in range(counts[i, 0]):
                tile = tile + 1.0
        tg.tile_store(out[i], tile)

    return kernel


def test_blocks_that_read_results_or_diverge_do_not_share_warps() -> None:
    args = [tg.zeros((5, 8, 8)), tg.zeros((5, 8, 8)), tg.zeros((5, 1), dtype=int)]
    assert lower_to_llvm(cholesky_kernel(8), args, (5,), 32).per_warp == 4
    assert lower_to_llvm(cholesky_kernel(8, in_place=True), args, (5,), 32).per_warp == 1
    assert lower_to_llvm(cholesky_kernel(8), [args[0], args[0], args[2]], (5,), 32).per_warp == 1
    assert lower_to_llvm(cholesky_kernel(8), args, (5,), 64).per_warp == 1
    assert [lower_to_llvm(subtract_columns(b), args, (5,), 32).per_warp for b in (False, True)] == [4, 1]


@pytest.mark.machine_code
@pytest.mark.parametrize(("n", "per_warp", "warps_per_cta"), [(7, 4, 2), (17, 1, 1)])
def test_eliminations_of_small_matrices_share_warps(n: int, per_warp: int, warps_per_cta: int) -> None:
    """Rows stay in their lanes. Among equal candidates, the pivot is the first row of the permuted matrix."""

    @tg.kernel
    def kernel(a: tg.array3d[float], y: tg.array2d[float], lu: tg.array3d[float], piv: tg.array2d[int], x):
        i = tg.tid()
        matrix = tg.tile_load(a[i], shape=(n, n))
        factors, exchanges = tg.tile_lu(matrix)
        tg.tile_store(lu[i], factors)
        tg.tile_store(piv[i], exchanges)
        tg.tile_store(x[i], tg.tile_solve(matrix, tg.tile_load(y[i], n)))

    rng, matrix_count = np.random.default_rng(n), per_warp + 1
    a = rng.integers(-3, 4, (matrix_count, n, n)).astype(np.float32)
    y = rng.standard_normal((matrix_count, n)).astype(np.float32)
    a[-1, :, 2] = 0.0
    args = [
        tg.array(a),
        tg.array(y),
        tg.zeros((matrix_count, n, n)),
        tg.zeros((matrix_count, n), dtype=int),
        tg.zeros((matrix_count, n)),
    ]
    code = lower_to_llvm(kernel, args, (matrix_count,), 32)
    assert code.per_warp == per_warp
    run_together(
        code,
        kernel,
        args,
        (matrix_count, 32),
        -(-matrix_count // (per_warp * warps_per_cta)),
        rows=warps_per_cta,
    )
    expected, expected_exchanges = reference(a)
    np.testing.assert_array_equal(args[3].numpy(), expected_exchanges)
    np.testing.assert_allclose(args[2].numpy(), expected, rtol=1e-4, atol=1e-4)
    x = args[4].numpy()
    residual = np.einsum("bij,bj->bi", a, x.astype(np.float64)) - y
    assert np.abs(residual[:-1]).max() < 1e-4 * np.abs(x[:-1]).max()
    assert not np.isfinite(x[-1]).all()


def test_elements_left_of_a_pivot_are_not_exchanged() -> None:
    """A step needs one shuffle for each remaining element of the pivot row, and two reductions in 16 lanes to find the
    pivot."""

    @tg.kernel
    def kernel(a: tg.array3d[float], lu: tg.array3d[float], piv: tg.array2d[int]):
        i = tg.tid()
        factors, exchanges = tg.tile_lu(tg.tile_load(a[i], shape=(12, 12)))
        tg.tile_store(lu[i], factors)
        tg.tile_store(piv[i], exchanges)

    args = [tg.zeros((5, 12, 12)), tg.zeros((5, 12, 12)), tg.zeros((5, 12), dtype=int)]
    text = lower_to_llvm(kernel, args, (5,), 32).text
    assert text.count("shfl.sync.idx") == 1 + 12 * 13 // 2
    assert text.count("shfl.sync.bfly") == 2 * 12 * 4 and "redux.sync" not in text
