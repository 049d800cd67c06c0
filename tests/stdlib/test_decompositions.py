"""Backward errors of decompositions and solutions are within bounds that do not depend on the condition number:
matrices of many shapes, dtypes and kinds, in batches, shared memory and transposed views, in blocks of any size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tegula as tg

KINDS = ("random", "hilbert", "rank-deficient", "equal", "graded", "zero")


def run(
    name: str, tiles: list[np.ndarray], shapes: list[tuple[Any, ...]], options: dict[str, Any]
) -> list[np.ndarray]:
    """The results of a function on tiles. `shapes`: shape and dtype of each result. `options`: `block_dim`; `storage`
    of the tiles; `transposed`: whether matrices are loaded transposed and passed as views; constants of the
    function."""
    constants = {key: x for key, x in options.items() if key not in ("block_dim", "storage", "transposed")}
    lines = list[str]()
    arrays = list[np.ndarray]()
    for k, x in enumerate(tiles):
        transposed = options["transposed"] and x.ndim == 2
        arrays.append(np.ascontiguousarray(x.T) if transposed else x)
        load = f"tg.tile_load(a{k}, shape={arrays[-1].shape}, storage={options['storage']!r})"
        lines.append(f"t{k} = {f'tg.tile_transpose({load})' if transposed else load}")
    arguments = [*(f"t{k}" for k in range(len(tiles))), *(f"{key}={x!r}" for key, x in constants.items())]
    results = [f"r{k}" for k in range(len(shapes))]
    lines.append(f"{', '.join(results)} = tg.{name}({', '.join(arguments)})")
    lines += [f"tg.tile_store(o{k}, {r})" for k, r in enumerate(results)]
    outs = [np.full(shape, 7, dtype) for shape, dtype in shapes]
    parameters = [f"a{k}: tg.array{x.ndim}d[Any]" for k, x in enumerate(arrays)]
    parameters += [f"o{k}: tg.array{x.ndim}d[Any]" for k, x in enumerate(outs)]
    source = f"def call_{name}({', '.join(parameters)}):\n" + "".join(f"    {line}\n" for line in lines)
    namespace: dict[str, Any] = {"tg": tg, "Any": Any}
    exec(compile(source, f"<a call of {name}>", "exec"), namespace)
    device_arrays = [tg.array(x) for x in (*arrays, *outs)]
    kernel = tg.kernel(source=source)(namespace[f"call_{name}"])
    tg.launch_tiled(kernel, dim=1, inputs=device_arrays, block_dim=options["block_dim"])
    return [x.numpy() for x in device_arrays[len(arrays) :]]


@st.composite
def random_cases(draw: st.DrawFn) -> tuple[np.random.Generator, int, dict[str, Any], Any, str]:
    """A random number generator, an extent, the options of `run`, a dtype and a kind of matrix."""
    options = {
        "block_dim": draw(st.sampled_from((1, 32, 33, 64, 100, 256))),
        "storage": draw(st.sampled_from(("register", "shared"))),
        "transposed": draw(st.booleans()),
    }
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype = draw(st.sampled_from((np.float32, np.float64)))
    return rng, draw(st.integers(1, 70)), options, dtype, draw(st.sampled_from(KINDS))


def matrix(rng: np.random.Generator, m: int, n: int, kind: str, dtype: Any) -> np.ndarray:
    """A matrix of a kind."""
    if kind == "hilbert":
        result = 1.0 / (np.arange(m)[:, None] + np.arange(n) + 1)
    elif kind == "rank-deficient":
        rank = max(1, min(m, n) // 2)
        result = rng.standard_normal((m, rank)) @ rng.standard_normal((rank, n))
    elif kind == "equal":
        result = np.linalg.qr(rng.standard_normal((max(m, n), max(m, n))))[0][:m, :n]
    elif kind == "graded":
        result = rng.standard_normal((m, n)) * np.logspace(0, -12, n)
    else:
        result = rng.standard_normal((m, n)) * (kind != "zero")
    return result.astype(dtype)


def definite(rng: np.random.Generator, n: int, kind: str, dtype: Any) -> np.ndarray:
    """A symmetric matrix of a kind, definite in its dtype."""
    factor = matrix(rng, n, n, kind, np.float64)
    squared = factor @ factor.T
    result = (squared + squared.T) / 2 + np.eye(n) * max(1e-30, np.abs(squared).max()) * n * 4 * np.finfo(
        dtype
    ).eps
    return result.astype(dtype)


def assert_bounded(error: Any, bound: Any) -> None:
    assert np.all(error <= bound), f"{np.max(error - bound)} above the bound"


def lower_and_upper(lu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.tril(lu, -1) + np.eye(len(lu)), np.triu(lu)


def check_cholesky(case: Any) -> None:
    rng, n, options, dtype, kind = case
    a = definite(rng, n, kind, dtype)
    with_nan_above = np.where(np.triu(np.ones((n, n)), 1) > 0, np.nan, a).astype(dtype)
    lower, info = run(
        "tile_cholesky", [with_nan_above], [((n, n), dtype), (1, np.int32)], {**options, "info": True}
    )
    assert info[0] == 0 and not np.triu(lower, 1).any()
    wide = lower.astype(np.float64)
    assert_bounded(np.abs(a - wide @ wide.T), (n + 4) * np.finfo(dtype).eps * (np.abs(wide) @ np.abs(wide).T))


def check_solves(case: Any) -> None:
    rng, n, options, dtype, _ = case
    lower = np.tril(rng.uniform(-1, 1, (n, n)), -1) / max(1, n**0.5) + np.eye(n) * rng.uniform(0.5, 2, n)
    lower, y = lower.astype(dtype), rng.standard_normal((n, 3)).astype(dtype)
    (z,) = run("tile_lower_solve", [lower, y], [((n, 3), dtype)], options)
    bound = (n + 4) * np.finfo(dtype).eps
    assert_bounded(
        np.abs(y - lower @ z.astype(np.float64)), bound * (np.abs(lower) @ np.abs(z.astype(np.float64)))
    )
    upper = np.ascontiguousarray(lower.T)
    (x,) = run("tile_upper_solve", [upper, y[:, 0].copy()], [(n, dtype)], options)
    assert_bounded(
        np.abs(y[:, 0] - upper @ x.astype(np.float64)), bound * (np.abs(upper) @ np.abs(x.astype(np.float64)))
    )


def check_lu(case: Any) -> None:
    rng, n, options, dtype, kind = case
    a = matrix(rng, n, n, kind, dtype)
    lu, piv = run("tile_lu", [a], [((n, n), dtype), (n, np.int32)], options)
    lower, upper = lower_and_upper(lu.astype(np.float64))
    assert np.abs(lower).max() <= 1 and np.all(piv >= np.arange(n))
    order = np.arange(n)
    for k, p in enumerate(piv):
        order[[k, p]] = order[[p, k]]
    assert_bounded(
        np.abs(a[order] - lower @ upper), (n + 4) * np.finfo(dtype).eps * (np.abs(lower) @ np.abs(upper))
    )


def check_solve(case: Any) -> None:
    rng, n, options, dtype, _ = case
    a, y = matrix(rng, n, n, "random", dtype), rng.standard_normal((n, 3)).astype(dtype)
    x = run("tile_solve", [a, y], [((n, 3), dtype)], options)[0].astype(np.float64)
    largest = np.linalg.norm(a.astype(np.float64), 2) * np.linalg.norm(x, axis=0)
    assert_bounded(np.linalg.norm(y - a @ x, axis=0), 8 * n * np.finfo(dtype).eps * largest)


def orthonormal(q: np.ndarray, n: int, eps: float) -> None:
    assert_bounded(np.linalg.norm(q.T @ q - np.eye(q.shape[1]), 2), 8 * n * eps)


def check_qr(case: Any) -> None:
    rng, n, options, dtype, kind = case
    m = n + int(rng.integers(0, 20))
    a = matrix(rng, m, n, kind, dtype)
    q, r = (x.astype(np.float64) for x in run("tile_qr", [a], [((m, n), dtype), ((n, n), dtype)], options))
    eps = float(np.finfo(dtype).eps)
    orthonormal(q, m, eps)
    assert not np.tril(r, -1).any() and np.all(np.diagonal(r) >= 0)
    assert_bounded(np.linalg.norm(a - q @ r, 2), 8 * m * eps * np.linalg.norm(a.astype(np.float64), 2))


def check_eigh(case: Any) -> None:
    rng, n, options, dtype, kind = case
    a = matrix(rng, n, n, kind, np.float64)
    a = ((a + a.T) / 2).astype(dtype)
    results = [(n, dtype), ((n, n), dtype), (1, np.int32)]
    w, v, info = run("tile_eigh", [a], results, {**options, "info": True})
    assert info[0] == 0 and np.all(np.diff(w) >= 0)
    assert np.all(v[np.abs(v).argmax(0), np.arange(n)] > 0)
    wide, eps = v.astype(np.float64), float(np.finfo(dtype).eps)
    orthonormal(wide, n, eps)
    assert_bounded(
        np.linalg.norm(a @ wide - wide * w, 2), 8 * n * eps * np.linalg.norm(a.astype(np.float64), 2)
    )


def check_svd(case: Any) -> None:
    rng, n, options, dtype, kind = case
    m = max(1, n + int(rng.integers(-15, 15)))
    k = min(m, n)
    a = matrix(rng, m, n, kind, dtype)
    results = [((m, k), dtype), (k, dtype), ((k, n), dtype), (1, np.int32)]
    u, s, vt, info = run("tile_svd", [a], results, {**options, "info": True})
    assert info[0] == 0 and np.all(np.diff(s) <= 0) and np.all(s >= 0)
    u, vt, eps = u.astype(np.float64), vt.astype(np.float64), float(np.finfo(dtype).eps)
    orthonormal(u, max(m, n), eps)
    orthonormal(vt.T, max(m, n), eps)
    assert_bounded(
        np.linalg.norm(a - u * s @ vt, 2), 8 * max(m, n) * eps * np.linalg.norm(a.astype(np.float64), 2)
    )


CHECKS = (check_cholesky, check_solves, check_lu, check_solve, check_qr, check_eigh, check_svd)


@pytest.mark.campaign
@pytest.mark.machine_code
@pytest.mark.parametrize("check", CHECKS)
@settings(max_examples=60, deadline=None)
@given(case=random_cases())
def test_backward_errors_of_decompositions_are_within_bounds(check: Any, case: Any) -> None:
    check(case)


@pytest.mark.slow
@pytest.mark.machine_code
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block_dim", (1, 32, 33))
def test_backward_errors_of_each_kind_of_matrix_are_within_bounds(
    check: Any, kind: str, block_dim: int
) -> None:
    options = {"block_dim": block_dim, "storage": "register", "transposed": True}
    check((np.random.default_rng(7), 19, options, np.float32, kind))


def graded(rng: np.random.Generator, n: int, is_ascending: bool) -> np.ndarray:
    scales = np.logspace(-20, 0, n) if is_ascending else np.logspace(0, -20, n)
    a = rng.standard_normal((n, n))
    return (a + a.T) * np.sqrt(np.outer(scales, scales))


def clustered(rng: np.random.Generator, n: int) -> np.ndarray:
    q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    return q * np.where(np.arange(n) < n // 2, 1.0, 2.0) @ q.T


@pytest.mark.slow(every=1)
@pytest.mark.machine_code
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_batches_of_hard_matrices_have_orthonormal_vectors_and_small_residuals(dtype: Any) -> None:
    """Matrices that need different numbers of iterations run side by side in SIMD lanes."""
    rng, n = np.random.default_rng(3), 11
    kinds = [graded(rng, n, True), graded(rng, n, False), clustered(rng, n), np.eye(n), np.zeros((n, n))]
    kinds += [np.ones((n, n)), 1e-30 * rng.standard_normal((n, n)), np.diag(np.ones(n - 1), 1)]
    a = np.stack([(x + x.T) / 2 for x in kinds] * 5).astype(dtype)
    eps = float(np.finfo(dtype).eps)
    w, v = (x.numpy().astype(np.float64) for x in tg.kernels.eigh(tg.array(a)))
    u, s, vt = (x.numpy().astype(np.float64) for x in tg.kernels.svd(tg.array(a)))
    for k, x in enumerate(a.astype(np.float64)):
        for q in (v[k], u[k], vt[k].T):
            orthonormal(q, n, eps)
        bound = 8 * n * eps * np.linalg.norm(x, 2)
        assert_bounded(np.linalg.norm(x @ v[k] - v[k] * w[k], 2), bound)
        assert_bounded(np.linalg.norm(x - u[k] * s[k] @ vt[k], 2), bound)


RESULTS: dict[str, Any] = {
    "tile_qr": lambda n: [((n, n), np.float32)] * 2,
    "tile_eigh": lambda n: [(n, np.float32), ((n, n), np.float32)],
    "tile_svd": lambda n: [((n, n), np.float32), (n, np.float32), ((n, n), np.float32)],
}


@pytest.mark.slow(every=1)
@pytest.mark.machine_code
@pytest.mark.parametrize("block_dim", [1, 32])
@pytest.mark.parametrize("name", RESULTS)
def test_a_nan_or_an_infinity_makes_all_results_nan(name: str, block_dim: int) -> None:
    n = 6
    options = {"block_dim": block_dim, "storage": "register", "transposed": False}
    for value, position in ((np.nan, (5, 5)), (np.inf, (3, 0)), (-np.inf, (4, 2))):
        a = np.random.default_rng(1).standard_normal((n, n)).astype(np.float32)
        a[position] = value
        for x in run(name, [a], RESULTS[name](n), options):
            upper = np.triu(np.ones(x.shape, bool)) if name == "tile_qr" else np.ones(x.shape, bool)
            assert np.isnan(x[upper]).all()


def eliminated(a: np.ndarray) -> np.ndarray:
    """The factors by LU decomposition with partial pivoting, where NaNs are preferred to numbers."""
    a = a.copy()
    for k in range(len(a)):
        column = np.where(np.isnan(a[k:, k]), np.inf, abs(a[k:, k]))
        p = k + int((np.isnan(a[k:, k]) if np.isnan(a[k:, k]).any() else column).argmax())
        a[[k, p]] = a[[p, k]]
        a[k + 1 :, k] /= a[k, k] or 1
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return a


@pytest.mark.slow(every=1)
@pytest.mark.machine_code
@pytest.mark.parametrize("block_dim", [1, 32, 64])
def test_nans_and_infinities_of_a_matrix_do_not_change_finished_rows(block_dim: int) -> None:
    n = 7
    for value, position in ((np.nan, (3, 4)), (np.nan, (0, 6)), (np.inf, (2, 0)), (-np.inf, (5, 5))):
        a = np.random.default_rng(2).standard_normal((n, n)).astype(np.float32)
        a[position] = value
        with np.errstate(invalid="ignore"):
            expected = eliminated(a)
        options = {"block_dim": block_dim, "storage": "register", "transposed": False}
        factors, _ = run("tile_lu", [a], [((n, n), np.float32), (n, np.int32)], options)
        np.testing.assert_allclose(factors, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow(every=1)
@pytest.mark.machine_code
def test_graded_matrices_of_128_columns_converge() -> None:
    """The first eigenvalue takes more than 30 iterations; the average is 1.4."""
    rng, n = np.random.default_rng(128), 128
    a = rng.standard_normal((n, n)) * np.logspace(0, -12, n)
    a = np.stack([a + a.T, (a + a.T)[::-1, ::-1]]).astype(np.float32)
    w, v = (x.numpy().astype(np.float64) for x in tg.kernels.eigh(tg.array(a)))
    eps = float(np.finfo(np.float32).eps)
    for x, values, vectors in zip(a.astype(np.float64), w, v, strict=True):
        orthonormal(vectors, n, eps)
        bound = 8 * n * eps * np.linalg.norm(x, 2)
        assert_bounded(np.linalg.norm(x @ vectors - vectors * values, 2), bound)


@pytest.mark.slow(every=1)
@pytest.mark.machine_code
def test_values_of_a_tiny_diagonal_block_are_relatively_accurate() -> None:
    a = np.diag([1, 0, 0, 1e-5, 2e-5, 3e-5]).astype(np.float32)
    a[1:3, 1:3] = [[2e-9, 1e-9], [1e-9, 3e-9]]
    expected = np.linalg.eigvalsh(a.astype(np.float64))
    np.testing.assert_allclose(tg.kernels.eigh(tg.array(a))[0].numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(tg.kernels.svd(tg.array(a))[1].numpy(), expected[::-1], rtol=1e-6)


@pytest.mark.machine_code
def test_singular_values_of_elements_of_any_size_converge() -> None:
    """Blocks whose elements above the diagonal are far larger than the diagonal have squares that overflow, and
    rounding errors of large elements stay above the precision of small ones."""
    rng, n = np.random.default_rng(5), 3
    kinds = [[[5e3, 0, 2e9], [0, -4e-3, 0.3], [0, 0, 5]]]
    kinds.append([[1.3e-9, -1.5e-8, -2e-3], [-6e-18, -390905.6, 1.369e18], [-1.2e-16, -1.8e-8, -1e-4]])
    random = rng.standard_normal((2000, n, n)) * 10.0 ** rng.integers(-20, 21, (2000, n, n))
    a = np.concatenate([np.array(kinds), random]).astype(np.float32)
    u, s, vt = (x.numpy().astype(np.float64) for x in tg.kernels.svd(tg.array(a)))
    eps, largest = float(np.finfo(np.float32).eps), np.abs(a).max(axis=(1, 2)).astype(np.float64)
    for q in (u, np.swapaxes(vt, 1, 2)):
        assert_bounded(np.abs(np.swapaxes(q, 1, 2) @ q - np.eye(n)).max(), 8 * n * eps)
    residual = u * (s / largest[:, None])[:, None, :] @ vt - a / largest[:, None, None]
    assert_bounded(np.abs(residual).max(), 8 * n * eps)
