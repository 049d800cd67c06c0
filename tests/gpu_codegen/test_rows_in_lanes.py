"""Linear algebra with a row of a matrix in each lane of a warp, run by the model of the instructions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from gpu_code import assemble, lower_to_llvm
from simt import run_together

import tegula as tg
from tegula.backend.llvm import compile_ptx

WARP = 32


def factors(n: int) -> Any:
    @tg.kernel
    def kernel(a, lu, piv):
        i = tg.tid()
        result, exchanges = tg.tile_lu(tg.tile_load(a[i], shape=(n, n)))
        tg.tile_store(lu[i], result)
        tg.tile_store(piv[i], exchanges)

    return kernel


def matrices(n: int, dtype: Any) -> np.ndarray:
    """A random matrix, and matrices with equal candidates for a pivot, a column of zeros, an infinite element, and NaNs
    of different bits."""
    a = np.random.default_rng(n).standard_normal((5, n, n)).astype(dtype)
    a[1] = np.round(a[1])
    a[2, :, 3] = 0
    a[3, 5, 4] = np.inf
    a[4, [2, 7], 0] = np.nan, -np.nan
    return a


@pytest.mark.machine_code
@pytest.mark.parametrize(
    ("n", "dtype"),
    [
        (17, np.float32),
        pytest.param(24, np.float64, marks=pytest.mark.slow(every=1)),
        pytest.param(33, np.float32, marks=pytest.mark.slow(every=1)),
        pytest.param(33, np.float64, marks=pytest.mark.slow(every=1)),
    ],
)
def test_factors_with_rows_in_lanes_are_those_of_a_block_on_a_cpu(n: int, dtype: Any) -> None:
    a = matrices(n, dtype)
    on_cpu, on_gpu = (
        [tg.array(a), tg.zeros(a.shape, dtype=a.dtype), tg.zeros(a.shape[:2], dtype=int)] for _ in range(2)
    )
    kernel = factors(n)
    tg.launch_tiled(kernel, (len(a),), on_cpu, block_dim=WARP)
    run_together(lower_to_llvm(kernel, on_gpu, (len(a),), WARP), kernel, on_gpu, (len(a), WARP), len(a))
    for computed, expected in zip(on_gpu, on_cpu, strict=True):
        np.testing.assert_array_equal(computed.numpy(), expected.numpy())


def inverses(n: int) -> Any:
    @tg.kernel
    def kernel(a, x):
        i = tg.tid()
        tg.tile_store(x[i], tg.tile_inverse(tg.tile_load(a[i], shape=(n, n))))

    return kernel


@pytest.mark.machine_code
@pytest.mark.parametrize(
    ("n", "dtype"),
    [
        (17, np.float32),
        pytest.param(34, np.float64, marks=pytest.mark.slow(every=1)),
        pytest.param(33, np.float32, marks=pytest.mark.slow(every=1)),
    ],
)
def test_inverses_with_rows_in_lanes_are_those_of_a_block_on_a_cpu(n: int, dtype: Any) -> None:
    """The inverse of a pivot overflows if the pivot is subnormal. A pivot of 0 divides as IEEE 754 says: the row of its
    step and the rows of the steps before are infinite or NaN."""
    a = matrices(n, dtype)
    tiny = np.finfo(dtype).smallest_subnormal
    a[1] = np.diag(np.where(np.arange(n) == 5, 2.0**-100, 1.0)) + 0.5 * np.eye(n, k=1)
    a = np.concatenate((a, np.diag(np.where(np.arange(n) == 7, 3 * tiny, 1))[None].astype(dtype)))
    on_cpu, on_gpu = ([tg.array(a), tg.zeros(a.shape, dtype=a.dtype)] for _ in range(2))
    kernel = inverses(n)
    tg.launch_tiled(kernel, (len(a),), on_cpu, block_dim=WARP)
    run_together(lower_to_llvm(kernel, on_gpu, (len(a),), WARP), kernel, on_gpu, (len(a), WARP), len(a))
    x = on_gpu[1].numpy()
    np.testing.assert_array_equal(x, on_cpu[1].numpy())
    epsilon = np.finfo(dtype).eps
    for k in (0, 1):
        expected = np.linalg.inv(a[k].astype(np.float64))
        np.testing.assert_allclose(x[k], expected, rtol=0, atol=1000 * epsilon * np.abs(expected).max())
    assert not np.isfinite(x[2, :4]).any() and np.isfinite(x[2, 4:]).all() and np.isnan(x[4]).all()
    assert np.isinf(x[5, 7, 7]) and np.isinf(x[5]).sum() == 1


def solutions(n: int, columns: int) -> Any:
    @tg.kernel
    def kernel(a, y, x):
        i = tg.tid()
        matrix, right = tg.tile_load(a[i], shape=(n, n)), tg.tile_load(y[i], shape=(n, columns))
        tg.tile_store(x[i], tg.tile_solve(matrix, right))

    return kernel


@pytest.mark.machine_code
@pytest.mark.slow(every=1)
@pytest.mark.parametrize(("n", "columns"), [(33, 1), (35, 33), (62, 33)])
def test_solutions_with_two_rows_in_a_lane_are_those_of_a_block_on_a_cpu(n: int, columns: int) -> None:
    """More than 32 right-hand sides are solved in several iterations of one loop."""
    a = matrices(n, np.float32)[[0, 2, 4]]
    y = np.random.default_rng(n).standard_normal((len(a), n, columns)).astype(np.float32)
    on_cpu, on_gpu = ([tg.array(a), tg.array(y), tg.zeros(y.shape)] for _ in range(2))
    kernel = solutions(n, columns)
    tg.launch_tiled(kernel, (len(a),), on_cpu, block_dim=WARP)
    run_together(lower_to_llvm(kernel, on_gpu, (len(a),), WARP), kernel, on_gpu, (len(a), WARP), len(a))
    x = on_gpu[2].numpy()
    np.testing.assert_array_equal(x, on_cpu[2].numpy())
    np.testing.assert_allclose(x[0], np.linalg.solve(a[0].astype(np.float64), y[0]), rtol=1e-2, atol=1e-2)
    assert not np.isfinite(x[1, :4]).any() and np.isnan(x[2]).all()


def triangular_solutions(n: int, columns: int) -> Any:
    @tg.kernel
    def kernel(a, y, lower, upper):
        i = tg.tid()
        matrix, right = tg.tile_load(a[i], shape=(n, n)), tg.tile_load(y[i], shape=(n, columns))
        tg.tile_store(lower[i], tg.tile_lower_solve(matrix, right))
        tg.tile_store(upper[i], tg.tile_upper_solve(matrix, right))

    return kernel


def substituted(a: np.ndarray, y: np.ndarray, order: Sequence[int]) -> np.ndarray:
    """The solution with the triangle of the rows that come before in an order of rows."""
    a, x = a.astype(np.longdouble), y.astype(np.longdouble)
    for step, k in enumerate(order):
        x[:, k] /= a[:, k, k, None]
        rest = list(order[step + 1 :])
        x[:, rest] -= a[:, rest, k, None] * x[:, k, None]
    return x


@pytest.mark.machine_code
@pytest.mark.parametrize(
    ("n", "columns", "dtype"),
    [
        (17, 1, np.float32),
        pytest.param(24, 3, np.float64, marks=pytest.mark.slow(every=1)),
        pytest.param(33, 2, np.float32, marks=pytest.mark.slow(every=1)),
        pytest.param(34, 33, np.float32, marks=pytest.mark.slow(every=1)),
    ],
)
def test_triangular_solutions_with_rows_in_lanes_are_those_of_a_block_on_a_cpu(
    n: int, columns: int, dtype: Any
) -> None:
    """The inverse of a pivot overflows if the pivot is subnormal; a pivot of 0 divides as IEEE 754 says. Lanes have the
    columns of many right-hand sides."""
    rng = np.random.default_rng(n)
    a = (rng.standard_normal((4, n, n)) / n + 2 * np.eye(n)).astype(dtype)
    y = rng.standard_normal((4, n, columns)).astype(dtype)
    tiny, zero = np.finfo(dtype).smallest_subnormal, 0
    a[1, 5, 5], y[1] = 3 * tiny, y[1] * np.finfo(dtype).tiny
    a[2, 6, 6] = zero
    a[3, 7, 7] = np.inf
    on_cpu, on_gpu = (
        [tg.array(a), tg.array(y), *(tg.zeros(y.shape, dtype=y.dtype) for _ in range(2))] for _ in range(2)
    )
    kernel = triangular_solutions(n, columns)
    tg.launch_tiled(kernel, (len(a),), on_cpu, block_dim=WARP)
    run_together(lower_to_llvm(kernel, on_gpu, (len(a),), WARP), kernel, on_gpu, (len(a), WARP), len(a))
    for computed, expected, order in zip(
        on_gpu[2:], on_cpu[2:], (range(n), range(n - 1, -1, -1)), strict=True
    ):
        np.testing.assert_array_equal(computed.numpy(), expected.numpy())
        x = computed.numpy()
        np.testing.assert_allclose(x[:2], substituted(a[:2], y[:2], order), rtol=1e-4, atol=4 * float(tiny))
        assert np.isinf(x[2, 6]).all() and (x[3, 7] == 0).all()


LIMITS = {12: 64, 15: 64, 24: 72, 31: 80}


@pytest.mark.slow(every=2)
@pytest.mark.parametrize("n", LIMITS)
def test_lanes_without_a_row_take_few_registers(n: int) -> None:
    """Selections of rows and positions stay in their steps, although only lanes with a row store the results, and lanes
    without an element read too when rows are exchanged."""
    args = [tg.zeros((8, n, n)), tg.zeros((8, n, n)), tg.zeros((8, n), dtype=int)]
    text, cubin = assemble(lower_to_llvm(factors(n), args, (8,), WARP))
    assert not cubin.spill_bytes
    assert cubin.registers <= LIMITS[n]
    after_elimination = text[text.rindex("shfl.sync") :]
    assert after_elimination.count("ld.shared") >= n // 4
    assert len(re.findall(r"\bbra\b", after_elimination)) < 2 * n + 10


@pytest.mark.parametrize(("n", "is_exchanged"), [(20, False), (32, True)])
def test_rows_of_large_matrices_are_loaded_by_neighbours_together(n: int, is_exchanged: bool) -> None:
    """Neighbouring lanes load neighbouring elements, and rows pass through shared memory once. Lanes load the rows of
    small matrices, which stay in the L1 cache, themselves."""
    args = [tg.zeros((8, n, n)), tg.zeros((8, n, 1)), tg.zeros((8, n, 1)), tg.zeros((8, n, 1))]
    text = compile_ptx(lower_to_llvm(triangular_solutions(n, 1), args, (8,), WARP).text, "sm_90a")
    assert text.count("ld.global.v4") == n // 4
    exchanges = n // 4 if is_exchanged else 0
    assert text.count("st.shared.v4") == text.count("ld.shared.v4") == exchanges
