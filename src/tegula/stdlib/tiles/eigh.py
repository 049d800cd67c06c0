"""Eigenvalues and eigenvectors of a symmetric matrix."""

from __future__ import annotations

from collections.abc import Iterator
from math import nan

import numpy as np

from tegula.declaration import Refused, Sample, cooperative
from tegula.signature import Asked, Extent, Real, Tile, constexpr
from tegula.stdlib.registry import tg
from tegula.stdlib.tiles.cholesky import FillMode
from tegula.stdlib.tiles.rotations import CHUNK
from tegula.types import int32

N, ONE, INFO = Extent("N"), 1, "info"


@cooperative
def tile_eigh(
    a: Tile[Real, ..., N, N], fill_mode: FillMode = "lower", info: constexpr[bool] = False
) -> tuple[Tile[Real, ..., N], Tile[Real, ..., N, N], Asked[INFO, Tile[int32, ..., ONE]]]:
    """The eigenvalues and eigenvectors of symmetric matrices: a @ v = v @ diag(w).

    Parameters:
        a: a tile (..., N, N) of floats, of which only the triangle that fill_mode names is read; float16 and bfloat16
            are computed in float32.
        fill_mode: "lower" or "upper", a constant.
        info: whether to return the third result too, a constant bool.
    Returns:
        w, a tile (..., N) in ascending order, and v, a tile (..., N, N) whose columns are orthonormal; the entry of
        largest magnitude in each column is positive. Both are NaN for a matrix with a NaN or an infinity, or if an
        iteration does not converge. With `info`, also a tile (..., 1) of int32: 0, or 1 without convergence.
    Raises:
        type-mismatch: `a` is not a tile of square matrices of floats, or there is no such fill_mode.
    Gradient:
        with G, H the adjoints of w and v: K = v @ (diag(G) + F * (v.T @ H)) @ v.T, F[i, j] = 1 / (w[j] - w[i]), and 0
        where the difference is at most 8 * N machine epsilons times the largest eigenvalue; the triangle of K + K.T
        that is read, with half of its diagonal.
    Source:
        LAPACK sytrd, steqr: Householder reflections to a tridiagonal matrix, then QR iterations with implicit shifts.
    """
    return tg._tile_eigh_by_chunks(a, fill_mode, 0)


@tile_eigh.program(when=lambda group: group == 1)
def by_one_thread(a, fill_mode):
    return tg._tile_eigh_by_chunks(a, fill_mode, CHUNK)


@cooperative
def _tile_inverse_gaps(gaps: Tile[Real, N, N], guard: Real) -> Tile[Real, N, N]:
    """The reciprocals of differences; 0 for differences of at most `guard`."""
    is_small = tg.abs(gaps) <= guard
    return tg.where(is_small, 0.0, 1.0 / tg.where(is_small, 1.0, gaps))


@tile_eigh.vjp(keep="result")
def adjoint(result, grad, fill_mode):
    (w, v, _), (grad_w, grad_v, _) = result, grad
    n = w.shape[0]
    index = tg.tile_arange(n, dtype=int)
    rows, columns = tg.tile_reshape(index, (n, 1)), tg.tile_reshape(index, (1, n))
    gaps = tg.tile_reshape(w, (1, n)) - tg.tile_reshape(w, (n, 1))
    guard = tg.static(8.0 * n) * tg._tile_epsilon(w[0]) * tg.tile_max(tg.abs(w))[0]
    transposed = tg.tile_transpose(v)
    scaled = (transposed @ grad_v) * tg._tile_inverse_gaps(gaps, guard)
    middle = tg.where(rows == columns, tg.tile_reshape(grad_w, (1, n)), scaled)
    k = v @ middle @ transposed
    symmetrised = k + tg.tile_transpose(k)
    strict_triangle = rows > columns if fill_mode == "lower" else rows < columns
    return tg.where(strict_triangle, symmetrised, tg.where(rows == columns, 0.5 * symmetrised, 0.0))


@tile_eigh.reference
def reference(a, fill_mode="lower", info=False):
    n = a.shape[-1]
    w, v = np.full(a.shape[:-1], nan), np.full(a.shape, nan)
    failed = np.ones((*a.shape[:-2], 1), np.int32)
    triangle = np.tril(a) if fill_mode == "lower" else np.swapaxes(np.triu(a), -1, -2)
    for batch_index in np.ndindex(a.shape[:-2]):
        if np.isfinite(triangle[batch_index]).all():
            w[batch_index], v[batch_index] = np.linalg.eigh(triangle[batch_index])
            largest = np.abs(v[batch_index]).argmax(axis=0)
            v[batch_index] *= np.where(v[batch_index][largest, np.arange(n)] < 0, -1.0, 1.0)
            failed[batch_index] = 0
    return w, v, failed


def symmetric(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Symmetric matrices with well separated eigenvalues, and with NaN above the diagonal."""
    *batch, n = shape
    q, _ = np.linalg.qr(rng.standard_normal(shape))
    w = np.arange(n) - n / 3 + rng.uniform(-0.2, 0.2, (*batch, n))[..., 0, :]
    matrices = q * w[..., None, :] @ np.swapaxes(q, -1, -2)
    return np.tril(matrices) + np.triu(np.full((n, n), nan), 1)


@tile_eigh.samples
def samples(rng: np.random.Generator) -> Iterator[Sample]:
    for n in (1, 2, 5, 16):
        yield Sample(symmetric(rng, n, n).astype(np.float32), tolerance=512)
    yield Sample(symmetric(rng, 33, 33), tolerance=1e4)
    yield Sample(np.tril(symmetric(rng, 5, 5)), tolerance=512, differentiable=True)
    yield Sample(np.tril(symmetric(rng, 4, 4)).T, "upper", tolerance=512, differentiable=True)
    yield Sample(symmetric(rng, 2, 3, 4, 4), info=True, tolerance=512)
    yield Sample(np.diag([3, 1]).astype(np.float16))
    yield Sample(np.zeros((3, 3), np.float32), tolerance=0)
    yield Sample(np.array([[[1, 0], [nan, 2]], [[1, 0], [0, 2]]], np.float32), info=True)
    yield Refused(np.ones((3, 4), np.float32), code="type-mismatch", says=("(3, 4)", "N is 3 and 4"))
    yield Refused(np.ones((3, 3), np.int32), code="type-mismatch", says=("int32",))


__all__ = ["symmetric"]
