"""The singular value decomposition of a matrix."""

from __future__ import annotations

from collections.abc import Iterator
from math import nan

import numpy as np

from tegula.declaration import Refused, Sample, cooperative
from tegula.signature import Asked, Extent, Real, Tile, constexpr
from tegula.stdlib.registry import tg
from tegula.stdlib.tiles.rotations import CHUNK
from tegula.types import int32

M, N, ONE, INFO = Extent("M"), Extent("N"), 1, "info"
K = Extent("K", value=lambda M, N: min(M, N))


@cooperative
def tile_svd(
    a: Tile[Real, ..., M, N], info: constexpr[bool] = False
) -> tuple[
    Tile[Real, ..., M, K], Tile[Real, ..., K], Tile[Real, ..., K, N], Asked[INFO, Tile[int32, ..., ONE]]
]:
    """The singular value decomposition of matrices: a = u @ diag(s) @ vt, with K = min(M, N) singular values.

    Parameters:
        a: a tile (..., M, N) of floats; float16 and bfloat16 are computed in float32.
        info: whether to return the fourth result too, a constant bool.
    Returns:
        u, a tile (..., M, K) with orthonormal columns; s, a tile (..., K) in descending order, not negative; vt, a tile
        (..., K, N) with orthonormal rows. The entry of largest magnitude in each row of vt (if M < N: in each column of
        u) is positive. All are NaN for a matrix with a NaN or an infinity, or if an iteration does not converge. With
        `info`, also a tile (..., 1) of int32: 0, or 1 without convergence.
    Raises:
        type-mismatch: `a` is not a tile of matrices of floats.
    Gradient:
        with S = diag(s), G, H, J the adjoints of u, s and v = vt.T, sk(x) = x - x.T: u @ (F * sk(u.T @ G) @ S + S @ F *
        sk(v.T @ J) + diag(H)) @ v.T + (I - u @ u.T) @ G @ inv(S) @ v.T + u @ inv(S) @ J.T @ (I - v @ v.T), F[i, j] =
        1 / (s[j]**2 - s[i]**2), and 0 where the difference is at most 8 * K machine epsilons times the largest square.
    Source:
        LAPACK gebrd, bdsqr: Householder reflections to a bidiagonal matrix, then QR iterations with implicit shifts.
    """
    ...


@tile_svd.program(when=lambda M, N: M < N)
def svd_of_transposed(a):
    u, s, vt, failed = tg.tile_svd(tg.tile_transpose(a), info=True)
    return tg.tile_transpose(vt), s, tg.tile_transpose(u), failed


@tile_svd.program(when=lambda M, N: M >= 2 * N)
def of_triangular_factor(a):
    """Decomposes r of a = q @ r, so that iterations rotate vectors of N instead of M elements."""
    q, r = tg.tile_qr(a)
    u, s, vt, failed = tg.tile_svd(r, info=True)
    return q @ u, s, vt, failed


@tile_svd.program(when=lambda group: group == 1)
def by_one_thread(a):
    return tg._tile_svd_by_chunks(a, CHUNK)


@tile_svd.program
def by_bidiagonal_matrix(a):
    return tg._tile_svd_by_chunks(a, 0)


@tile_svd.vjp(keep="result")
def adjoint(result, grad):
    (u, s, vt, _), (grad_u, grad_s, grad_vt, _) = result, grad
    n = s.shape[0]
    is_tall, is_wide = u.shape[0] > n, vt.shape[1] > n
    index = tg.tile_arange(n, dtype=int)
    rows, columns = tg.tile_reshape(index, (n, 1)), tg.tile_reshape(index, (1, n))
    v, ut, grad_v = tg.tile_transpose(vt), tg.tile_transpose(u), tg.tile_transpose(grad_vt)
    s_row, s_column = tg.tile_reshape(s, (1, n)), tg.tile_reshape(s, (n, 1))
    largest = tg.tile_max(s)[0]
    guard = tg.static(8.0 * n) * tg._tile_epsilon(largest) * largest * largest
    gaps = tg._tile_inverse_gaps((s_row - s_column) * (s_row + s_column), guard)
    left, right = ut @ grad_u, vt @ grad_v
    middle = gaps * (left - tg.tile_transpose(left)) * s_row + s_column * gaps * (
        right - tg.tile_transpose(right)
    )
    middle = middle + tg.where(rows == columns, tg.tile_reshape(grad_s, (1, n)), 0.0)
    grad_a = u @ middle @ vt
    is_negligible = s <= tg.static(8.0 * n) * tg._tile_epsilon(largest) * largest
    inverse = tg.tile_reshape(tg.where(is_negligible, 0.0, 1.0 / tg.where(is_negligible, 1.0, s)), (1, n))
    if is_tall:
        grad_a = grad_a + ((grad_u - u @ left) * inverse) @ vt
    if is_wide:
        grad_a = grad_a + (u * inverse) @ tg.tile_transpose(grad_v - v @ right)
    return grad_a


@tile_svd.reference
def reference(a, info=False):
    m, n = a.shape[-2:]
    k = min(m, n)
    batch = a.shape[:-2]
    u, s, vt = np.full((*batch, m, k), nan), np.full((*batch, k), nan), np.full((*batch, k, n), nan)
    failed = np.ones((*batch, 1), np.int32)
    for index in np.ndindex(batch):
        if np.isfinite(a[index]).all():
            u[index], s[index], vt[index] = np.linalg.svd(a[index], full_matrices=False)
            rows = vt[index] if m >= n else u[index].T
            sign = np.where(rows[np.arange(k), np.abs(rows).argmax(axis=1)] < 0, -1.0, 1.0)
            u[index], vt[index], failed[index] = (
                u[index] * sign,
                vt[index] * sign[:, None],
                0,
            )
    return u, s, vt, failed


def separated_singular_values(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Matrices with well separated singular values."""
    *batch, m, n = shape
    k = min(m, n)
    left, _ = np.linalg.qr(rng.standard_normal((*batch, m, k)))
    right, _ = np.linalg.qr(rng.standard_normal((*batch, n, k)))
    s = np.arange(1, k + 1) + rng.uniform(-0.2, 0.2, (*batch, k))
    return left * s[..., None, :] @ np.swapaxes(right, -1, -2)


@tile_svd.samples
def samples(rng: np.random.Generator) -> Iterator[Sample]:
    for shape in ((1, 1), (2, 2), (5, 4), (16, 16)):
        yield Sample(separated_singular_values(rng, *shape).astype(np.float32), tolerance=1024)
    yield Sample(separated_singular_values(rng, 40, 13), tolerance=1e4)
    yield Sample(separated_singular_values(rng, 4, 4), tolerance=512, differentiable=True)
    yield Sample(separated_singular_values(rng, 5, 3), tolerance=512, differentiable=True)
    yield Sample(separated_singular_values(rng, 2, 2, 3), tolerance=512, info=True, differentiable=True)
    yield Sample(np.diag([1, 3]).astype(np.float16))
    yield Sample(np.array([[[1, 0], [nan, 2]], [[2, 0], [0, 1]]], np.float32), info=True)
    yield Refused(np.ones(3, np.float32), code="type-mismatch", says=("(3,)", "tile[Real, ..., M, N]"))
    yield Refused(np.ones((3, 3), np.int32), code="type-mismatch", says=("int32",))
