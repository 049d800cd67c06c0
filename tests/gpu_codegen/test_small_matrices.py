"""Linear algebra of small matrices compiled for GPUs as the host functions launch it: no spills, and no barrier of the
block in blocks of one warp, whatever the size of the matrix."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest
from gpu_code import assemble, lower_to_llvm
from simt import run_together

import tegula as tg
from tegula.backend.llvm import compile_ptx
from tegula.codegen.gpu import GpuCode
from tegula.runtime.library import library
from tegula.runtime.over_batches import ArrayKey, BatchedKernel, _batched_kernel

WARP, BATCH = 32, 5
SIZES = (17, 31, 24, 33, 48, 64, 12, 15, 7, 3, 1)


def matrix_shapes(function: str, n: int, columns: int) -> list[tuple[int, ...]]:
    """The shapes of the matrix and, if the function takes one, of the right-hand side."""
    rows = n + 4 if function == "tile_lstsq" else n
    right = (rows, columns) if columns else (rows,)
    return [(rows, n), right] if function.endswith(("solve", "lstsq")) else [(n, n)]


def kernel_on_gpu(
    function: str, shapes: list[tuple[int, ...]], dtype: Any = tg.float32, **constants: Any
) -> BatchedKernel:
    """The kernel and the launch of a host function for arrays on a GPU."""
    f = library()[function]
    defaults = {
        p.name: p.default for p in f.definition.parameters if p.default is not inspect.Parameter.empty
    }
    names = [p.name for p in f.definition.parameters if p.name not in defaults]
    keys = tuple(
        (name, ArrayKey(dtype, (BATCH, *shape), True)) for name, shape in zip(names, shapes, strict=True)
    )
    values = tuple((key, x, type(x)) for key, x in {**defaults, **constants}.items())
    return _batched_kernel(f, len(f.variants), function, keys, values, bounds_check=False)


def lower(
    batched: BatchedKernel, shapes: list[tuple[int, ...]], dtype: Any = tg.float32
) -> tuple[GpuCode, list[Any]]:
    """The code of a launch, and its arrays."""
    arrays = [tg.zeros((BATCH, *shape), dtype=dtype) for shape in shapes]
    arrays += [tg.zeros(shape, dtype=kind) for shape, kind in batched.results]
    return lower_to_llvm(batched.kernel, arrays, (BATCH,), batched.block_dim), arrays


CASES: dict[str, tuple[str, bool, dict[str, Any]]] = {
    "lower Cholesky": ("tile_cholesky", False, {"fill_mode": "lower"}),
    "upper Cholesky": ("tile_cholesky", False, {"fill_mode": "upper"}),
    "Cholesky solution": ("tile_cholesky_solve", False, {}),
    "Cholesky solutions": ("tile_cholesky_solve", True, {}),
    "lower solution": ("tile_lower_solve", False, {}),
    "lower solutions": ("tile_lower_solve", True, {}),
    "upper solutions": ("tile_upper_solve", True, {}),
    "LU": ("tile_lu", False, {}),
    "solution": ("tile_solve", False, {}),
    "solutions": ("tile_solve", True, {}),
    "inverse": ("tile_inverse", False, {}),
    "determinant": ("tile_determinant", False, {}),
    "logarithm of the determinant": ("tile_slogdet", False, {}),
    "QR": ("tile_qr", False, {}),
    "least squares": ("tile_lstsq", False, {}),
    "eigenvectors": ("tile_eigh", False, {}),
    "singular vectors": ("tile_svd", False, {}),
}
"""Function, whether the right-hand side is a square matrix instead of a vector, and constants."""


@pytest.mark.slow(every=7)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", CASES)
def test_no_size_of_a_matrix_spills_registers(name: str, n: int) -> None:
    function, has_matrix, constants = CASES[name]
    shapes = matrix_shapes(function, n, n if has_matrix else 0)
    batched = kernel_on_gpu(function, shapes, **constants)
    text, cubin = assemble(lower(batched, shapes)[0])
    assert not cubin.spill_bytes, f"{cubin.spill_bytes} bytes"
    assert batched.block_dim > WARP or "bar.sync" not in text


LINES = {
    ("lower Cholesky", 32): 1150,
    ("LU", 16): 1700,
    ("LU", 31): 1850,
    ("LU", 32): 1600,
    ("solution", 32): 1650,
    ("solutions", 14): 2400,
    ("solutions", 16): 2150,
    ("lower solutions", 31): 1600,
    ("inverse", 16): 2200,
    ("inverse", 32): 1200,
    ("determinant", 32): 1700,
    ("logarithm of the determinant", 15): 2100,
    ("logarithm of the determinant", 32): 2100,
    ("eigenvectors", 16): 1400,
    ("eigenvectors", 32): 2150,
    ("singular vectors", 16): 1900,
}
"""The maximum number of lines of LLVM code, to which the time of a compile is proportional."""


@pytest.mark.parametrize(("name", "n"), LINES)
def test_steps_share_their_code(name: str, n: int) -> None:
    function, has_matrix, constants = CASES[name]
    shapes = matrix_shapes(function, n, n if has_matrix else 0)
    code, _ = lower(kernel_on_gpu(function, shapes, **constants), shapes)
    assert code.text.count("\n") <= LINES[name, n]


@pytest.mark.parametrize("dtype", [tg.float32, tg.float64])
def test_reads_of_lines_that_all_threads_share_need_no_branch(dtype: Any) -> None:
    """The column of a step is read by all threads, also by the 12 threads without a column of the right-hand side."""
    shapes = matrix_shapes("tile_lower_solve", 20, 20)
    code, _ = lower(kernel_on_gpu("tile_lower_solve", shapes, dtype), shapes, dtype)
    text = compile_ptx(code.text, "sm_90a")
    assert text.count("ld.shared") >= 100
    # The loads and stores of a tile by some threads are under one branch.
    assert len(re.findall(r"\bbra\b", text)) < 16


@pytest.mark.machine_code
@pytest.mark.parametrize(
    ("n", "dtype"), [(5, np.float32), pytest.param(17, np.float64, marks=pytest.mark.slow)]
)
def test_solutions_of_many_right_hand_sides_match_numpy(n: int, dtype: Any) -> None:
    rng = np.random.default_rng(n)
    shapes = matrix_shapes("tile_lower_solve", n, 17)
    batched = kernel_on_gpu("tile_lower_solve", shapes, tg.array(np.zeros(1, dtype)).dtype)
    code, arrays = lower(batched, shapes, tg.array(np.zeros(1, dtype)).dtype)
    matrices = np.tril(rng.uniform(-1, 1, (BATCH, n, n))) + 2 * np.eye(n)
    right = rng.uniform(-1, 1, (BATCH, n, 17))
    arrays[:2] = [tg.array(matrices.astype(dtype)), tg.array(right.astype(dtype))]
    run_together(code, batched.kernel, arrays, (BATCH, WARP), -(-BATCH // code.per_warp))
    np.testing.assert_allclose(arrays[2].numpy(), np.linalg.solve(matrices, right), rtol=1e-4, atol=1e-5)


@pytest.mark.machine_code
def test_steps_that_share_their_code_solve_several_matrices_of_a_warp() -> None:
    n, columns = 6, 7
    rng = np.random.default_rng(0)
    shapes = matrix_shapes("tile_solve", n, columns)
    batched = kernel_on_gpu("tile_solve", shapes)
    code, arrays = lower(batched, shapes)
    assert code.per_warp == 4 and "llvm.loop.unroll.disable" in code.text
    matrices, right = rng.uniform(-1, 1, (BATCH, n, n)), rng.uniform(-1, 1, (BATCH, n, columns))
    arrays[:2] = [tg.array(matrices.astype(np.float32)), tg.array(right.astype(np.float32))]
    run_together(code, batched.kernel, arrays, (BATCH, WARP), 2)
    np.testing.assert_allclose(arrays[2].numpy(), np.linalg.solve(matrices, right), rtol=1e-3, atol=1e-4)


@tg.kernel
def column_limits(a: tg.array3d[float], least: tg.array2d[float], largest: tg.array2d[float]):
    i = tg.tid()
    tile = tg.tile_load(a[i], shape=(61, 61))
    tg.tile_store(least[i], tg.tile_min(tile, axis=0))
    tg.tile_store(largest[i], tg.tile_max(tile, axis=0))


@pytest.mark.machine_code
@pytest.mark.slow(every=1)
def test_reductions_of_many_columns_in_two_warps_synchronise_separately() -> None:
    """A thread reads the partial results of both warps for all columns, 122 numbers for each reduction."""
    a = np.random.default_rng(1).standard_normal((2, 61, 61)).astype(np.float32)
    arrays = [tg.array(a), tg.zeros((2, 61)), tg.zeros((2, 61))]
    code = lower_to_llvm(column_limits, arrays, (2,), 2 * WARP)
    run_together(code, column_limits, arrays, (2, 2 * WARP), 2)
    np.testing.assert_array_equal(arrays[1].numpy(), a.min(1))
    np.testing.assert_array_equal(arrays[2].numpy(), a.max(1))
    assert not assemble(code)[1].spill_bytes


@pytest.mark.slow(every=1)
@pytest.mark.parametrize("n", [45, 59])
def test_singular_vectors_in_two_warps_spill_no_registers(n: int) -> None:
    batched = kernel_on_gpu("tile_svd", [(n, n)])
    assert batched.block_dim == 2 * WARP
    assert not assemble(lower(batched, [(n, n)])[0])[1].spill_bytes


@pytest.mark.machine_code
@pytest.mark.parametrize(("n", "columns"), [(17, 3), (17, 17), (20, 23)])
def test_steps_of_solutions_take_few_shuffles(n: int, columns: int) -> None:
    """With few right-hand sides the elimination has a shuffle for each element of the pivot rows, and the substitution
    one for each step and one for each column in a step; with many right-hand sides both are loops."""
    rng = np.random.default_rng(n)
    shapes = matrix_shapes("tile_solve", n, columns)
    batched = kernel_on_gpu("tile_solve", shapes)
    code, arrays = lower(batched, shapes)
    matrices, right = (rng.uniform(-1, 1, (BATCH, *shape)).astype(np.float32) for shape in shapes)
    matrices[-1, :, 1] = 0.0
    arrays[:2] = [tg.array(matrices), tg.array(right)]
    run_together(code, batched.kernel, arrays, (BATCH, WARP), -(-BATCH // code.per_warp))
    solution = arrays[2].numpy()
    expected = np.linalg.solve(matrices[:-1], right[:-1])
    np.testing.assert_allclose(solution[:-1], expected, rtol=1e-3, atol=1e-3)
    assert not np.isfinite(solution[-1]).all()
    shuffles = compile_ptx(code.text, "sm_90a").count("shfl.sync")
    unrolled = n * (n + 1) // 2 + n * columns + n * (1 + columns)
    assert shuffles < (unrolled if columns < n else 3 * n + 3 * columns) + 2 * columns + 10


@tg.kernel
def halvings(a: tg.array1d[float], out: tg.array1d[int]):
    _, i = tg.tid()
    count, x = 0, a[i]
    while x > 1.0:
        count, x = count + 1, 0.5 * x
    out[i] = count


@pytest.mark.slow(every=1)
def test_iterations_of_a_warp_go_on_together() -> None:
    """All threads compute the same condition, which ptxas cannot know. Threads with conditions of their own do not
    vote."""
    code, _ = lower(kernel_on_gpu("tile_svd", [(4, 4)]), [(4, 4)])
    assert "COLLECTIVE" not in assemble(code)[1].sass()
    arrays = [tg.zeros(WARP), tg.zeros(WARP, dtype=int)]
    assert "vote" not in lower_to_llvm(halvings, arrays, (1,), WARP).text


@tg.kernel
def factorised(a: tg.array2d[tg.float64], d: tg.array[tg.float64], out: tg.array2d[tg.float64]):
    transposed = tg.tile_transpose(tg.tile_load(a, shape=(8, 8), storage="shared"))
    tg.tile_store(out, tg.tile_cholesky(tg.tile_diag_add(transposed, tg.tile_load(d, shape=8))))


@pytest.mark.machine_code
def test_shared_tiles_with_packed_views_are_not_padded() -> None:
    """Threads write whole rows of a sum whose diagonal is a view with the stride of a row and one element."""
    rng = np.random.default_rng(0)
    a, d, out = rng.random((8, 8)), 8 + rng.random(8), tg.zeros((8, 8), dtype=tg.float64)
    arrays = [tg.array(a), tg.array(d), out]
    run_together(lower_to_llvm(factorised, arrays, (1,), WARP), factorised, arrays, (1, WARP), 1)
    np.testing.assert_allclose(
        out.numpy(), np.linalg.cholesky(np.tril(a.T) + np.tril(a.T, -1).T + np.diag(d))
    )
