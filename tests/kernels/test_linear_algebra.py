"""Linear algebra and sorting of arrays with any batch: results, gradients, tensors of PyTorch, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tegula as tg
from support.array_order import column_major
from tegula import kernels
from tegula.stdlib.tiles.sort import sort_indices
from tegula.stdlib.tiles.sort_radix import bits_of_digit, digits_of_counter

BATCHES = ((), (5,), (2, 3))


def positive_definite(*batch: int, n: int = 4, dtype: Any = np.float64) -> np.ndarray:
    m = np.random.default_rng(1).standard_normal((*batch, n, n))
    return (m @ np.swapaxes(m, -1, -2) + np.eye(n)).astype(dtype)


def assert_close(actual: Any, expected: np.ndarray) -> None:
    np.testing.assert_allclose(actual.numpy(), expected, rtol=1e-8, atol=1e-10)


@pytest.mark.machine_code
@pytest.mark.parametrize("batch", BATCHES)
def test_cholesky_and_solve_match_numpy(batch: tuple[int, ...]) -> None:
    a, y = positive_definite(*batch), np.random.default_rng(2).standard_normal((*batch, 4))
    assert_close(kernels.cholesky(a), np.linalg.cholesky(a))
    assert_close(kernels.solve(a, y), np.linalg.solve(a, y[..., None])[..., 0])


@pytest.mark.machine_code
def test_a_kernel_without_bounds_checks_is_checked_in_debug_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    right, smaller = tg.array(positive_definite(2, n=3)), tg.zeros((2, 2, 3), dtype=tg.float64)
    batched = tg.over_batches("tile_cholesky", [right], bounds_check=False)
    monkeypatch.setattr(tg.config, "mode", "debug")
    tg.launch_tiled(batched.kernel, batched.dim, [right], [result := tg.zeros_like(right)], block_dim=1)
    assert_close(result, np.linalg.cholesky(right.numpy()))
    with pytest.raises(tg.OutOfBounds, match="leave out bounds_check=False"):
        tg.launch_tiled(batched.kernel, batched.dim, [right], [smaller], block_dim=1)
        tg.synchronize()


@pytest.mark.machine_code
@pytest.mark.slow
@pytest.mark.parametrize("batch", BATCHES)
def test_inverse_qr_eigh_svd_and_lu_match_numpy(batch: tuple[int, ...]) -> None:
    a = positive_definite(*batch)
    assert_close(kernels.inverse(a), np.linalg.inv(a))
    q, r = (x.numpy() for x in kernels.qr(a))
    np.testing.assert_allclose(q @ r, a, atol=1e-12)
    w, v = kernels.eigh(np.swapaxes(a, -1, -2))
    assert_close(w, np.linalg.eigh(a)[0])
    np.testing.assert_allclose(a @ v.numpy(), v.numpy() * w.numpy()[..., None, :], atol=1e-10)
    u, s, vt = (x.numpy() for x in kernels.svd(a[..., :3]))
    np.testing.assert_allclose(u * s[..., None, :] @ vt, a[..., :3], atol=1e-10)
    factors, piv = kernels.lu(a)
    assert factors.shape == a.shape and piv.shape == a.shape[:-1] and piv.dtype == tg.int32


MATRIX_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "cholesky": kernels.cholesky,
    "solve": lambda a: kernels.solve(a, tg.zeros(a.shape[:-1], dtype=a.dtype) + 1.0),
    "lu": kernels.lu,
    "inverse": kernels.inverse,
    "qr": kernels.qr,
    "eigh": kernels.eigh,
    "svd": kernels.svd,
}


@pytest.mark.machine_code
@pytest.mark.parametrize("name", MATRIX_FUNCTIONS)
@pytest.mark.parametrize("n", [5, *(pytest.param(n, marks=pytest.mark.slow(every=1)) for n in (16, 31, 48))])
def test_matrices_in_column_major_order(name: str, n: int) -> None:
    a = positive_definite(3, n=n, dtype=np.float32)
    in_rows, in_columns = tg.array(a), column_major(a)
    assert in_columns.strides[1] == 4 < in_columns.strides[2]
    results = [MATRIX_FUNCTIONS[name](x) for x in (in_rows, in_columns)]
    expected, actual = (x if isinstance(x, tuple) else (x,) for x in results)
    for x, y in zip(expected, actual, strict=True):
        np.testing.assert_array_equal(y.numpy(), x.numpy())


@pytest.mark.machine_code
@pytest.mark.parametrize(("n", "dtype"), [(65, np.float32), (2100, np.float32), (300, np.int64)])
@pytest.mark.parametrize("descending", [False, True])
def test_sorts_of_long_rows_keep_the_order_of_equal_keys(n: int, dtype: type, descending: bool) -> None:
    """In blocks of one thread, by counts of digits."""
    rng = np.random.default_rng(n)
    keys = (rng.integers(-3, 3, (4, n)) * 2e8 + rng.integers(0, 9, (4, n)) * 1e4).astype(dtype)
    if dtype is np.float32:
        keys[:, ::5], keys[:, 1::7], keys[:, 2::7] = np.nan, -0.0, 0.0
    sorted_keys, places = kernels.sort(tg.array(keys), descending)
    expected = sort_indices(keys, -1, descending)
    np.testing.assert_array_equal(places.numpy(), expected)
    np.testing.assert_array_equal(kernels.argsort(tg.array(keys), descending).numpy(), expected)
    np.testing.assert_array_equal(sorted_keys.numpy(), np.take_along_axis(keys, expected, -1))


def test_counters_of_digits_hold_the_number_of_keys() -> None:
    for n in (65, 255, 256, 2047, 65535, 65536, (1 << 21) - 1, 1 << 21, 1 << 31):
        for key_bits in (32, 64):
            passes = -(-key_bits // bits_of_digit(n, key_bits))
            assert n < 1 << 64 // digits_of_counter(n, passes)
    assert (bits_of_digit(256, 32), bits_of_digit(4096, 32)) == (8, 11)


@pytest.mark.machine_code
def test_sort_argsort_and_topk_match_numpy() -> None:
    keys = np.array([[3.0, 1.0, np.nan, 1.0], [0.0, -0.0, 2.0, -1.0]], np.float32)
    result, permutation = kernels.sort(keys)
    np.testing.assert_array_equal(permutation.numpy(), [[1, 3, 0, 2], [3, 1, 0, 2]])
    np.testing.assert_array_equal(result.numpy(), np.take_along_axis(keys, permutation.numpy(), -1))
    np.testing.assert_array_equal(
        kernels.argsort(keys, descending=True).numpy(), [[2, 0, 1, 3], [2, 0, 1, 3]]
    )
    largest, permutation = kernels.topk(keys, 2)
    np.testing.assert_array_equal(permutation.numpy(), [[2, 0], [2, 0]])
    np.testing.assert_array_equal(largest.numpy(), [[np.nan, 3], [2, 0]])


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "cholesky": kernels.cholesky,
    "inverse": kernels.inverse,
    "eigh": lambda a: kernels.eigh(a)[1],
    "sort": lambda a: kernels.sort(a)[0],
    "topk": lambda a: kernels.topk(a, 2)[0],
}


@pytest.mark.machine_code
@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_linear_algebra_are_recorded(name: str) -> None:
    f, a = FUNCTIONS[name], positive_definite(3)
    rng = np.random.default_rng(3)
    x = tg.array(a, requires_grad=True)
    with tg.Tape() as tape:
        out = f(x)
    seed = rng.standard_normal(out.shape)
    tape.backward(grads={out: tg.array(seed)})
    step = np.tril(rng.standard_normal(a.shape)) * 1e-6
    change = (f(a + step).numpy() - f(a - step).numpy()) / 2
    np.testing.assert_allclose((x.grad.numpy() * step).sum(), (seed * change).sum(), rtol=1e-5)


def test_cholesky_of_an_empty_batch_is_empty() -> None:
    assert kernels.cholesky(np.ones((0, 3, 3), np.float32)).shape == (0, 3, 3)


def test_linear_algebra_refuses_invalid_arguments() -> None:
    a = positive_definite(2)
    for call, message in (
        (lambda: kernels.cholesky(a[..., :3]), "'a' of shape (2, 4, 3)"),
        (lambda: kernels.solve(a, a[0, 0, :3]), "'y' of shape (3,)"),
        (lambda: kernels.inverse(a.astype(np.int32)), "got int32"),
        (lambda: kernels.sort("keys"), "'keys' is not an array"),
        (lambda: kernels.sort(a.astype(np.uint8)), "error[launch]: sort: 'keys' must be of float32"),
        (lambda: kernels.qr(a[..., :3, :]), "the implementations need M >= N"),
        (lambda: kernels.solve(a[0], a[:, None]), "the batches of 'a' and 'y'"),
        (lambda: kernels.eigh(a, "both"), "eigh: 'fill_mode' must be 'lower' or 'upper', got 'both'"),
        (lambda: kernels.topk(a, None), "topk: 'k' must be of type int, got None"),
        (lambda: kernels.cholesky(None), "'a' is not an array: it is None"),
        (lambda: tg.over_batches("tile_lu", [tg.array(a)], {"pivot": 1}), "tile_lu has no parameter 'pivot'"),
    ):
        with pytest.raises(tg.LaunchError) as error:
            call()
        assert message in str(error.value)
    for keys, k in ((a[0], 5), (a[0], 0), (a[0], -1), (np.ones((3, 0)), 1), (np.ones((0, 4)), 5)):
        with pytest.raises(tg.CompileError) as refused:
            kernels.topk(keys, k)
        assert str(refused.value).startswith(f"error[out-of-range]: 'k' is {k}, but there are")


@pytest.mark.machine_code
def test_constants_of_another_type_are_not_taken_for_equal_constants() -> None:
    keys = tg.array(np.arange(50, dtype=np.float32).reshape(2, 25))
    assert kernels.topk(keys, 1)[1].numpy().tolist() == [[24], [24]]
    for k in (1.0, True):
        with pytest.raises(tg.LaunchError, match="'k' must be of type int"):
            kernels.topk(keys, k)
    assert kernels.topk(keys, np.int64(1))[1].numpy().tolist() == [[24], [24]]
    assert kernels.argsort(keys, True).shape == (2, 25)
    with pytest.raises(tg.LaunchError, match="'descending' must be of type bool"):
        kernels.argsort(keys, 1)
