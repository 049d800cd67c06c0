"""The singular value decomposition of a matrix."""

from __future__ import annotations

from collections.abc import Iterator
from math import nan

import numpy as np

from tegula.declaration import Refused, Sample, cooperative
from tegula.signature import Asked, Extent, Real, Tile, constexpr
from tegula.stdlib.registry import tg
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
        info: whether to give the fourth result too, a constant.
    Returns:
        u, a tile (..., M, K) with orthonormal columns; s, a tile (..., K) in descending order, not negative; vt, a tile
        (..., K, N) with orthonormal rows, the entry of largest magnitude in each of which is positive (if M < N: in
        each column of u). NaN if the iteration does not converge in 12 sweeps (float64: 16), as where an element is no
        number. With `info`, also a tile (..., 1) of int32: 0, or 1 where it did not converge.
    Raises:
        type-mismatch: `a` is no tile of matrices of floats.
    Gradient:
        with S = diag(s), G, H, J the adjoints of u, s and v = vt.T, sk(x) = x - x.T: u @ (F * sk(u.T @ G) @ S + S @ F *
        sk(v.T @ J) + diag(H)) @ v.T + (I - u @ u.T) @ G @ inv(S) @ v.T + u @ inv(S) @ J.T @ (I - v @ v.T), F[i, j] =
        1 / (s[j]**2 - s[i]**2), and 0 where the difference is within 8 * K units of rounding of the largest square.
    Source:
        Hestenes (1958): one-sided rotations of Jacobi; the order of Brent and Luk (1985).
    """


@tile_svd.program(when=lambda M, N: M < N)
def of_wide(a):
    u, s, vt, failed = tg.tile_svd(tg.tile_transpose(a), info=True)
    return tg.tile_transpose(vt), s, tg.tile_transpose(u), failed


@tile_svd.program(when=lambda M, N: 2 * N < M)
def of_high(a):
    """Decomposes r of a = q @ r, which has fewer rows."""
    q, r = tg.tile_qr(a)
    u, s, vt, failed = tg.tile_svd(r, info=True)
    return q @ u, s, vt, failed


@tile_svd.program
def by_rotations(a):
    """Rotates columns until they are orthogonal; a QR decomposition gives their directions, those of columns of 0
    too."""
    m, n = a.shape
    along = tg.tile_arange(n, dtype=int)
    one, zero = type(a[0, 0])(1.0), type(a[0, 0])(0.0)
    # Scaled, so that squares neither overflow nor vanish.
    size = tg.tile_max(tg.abs(a))[0]
    size = tg.where(size > zero, size, one)
    a = a / size
    v = tg.where(tg.tile_reshape(along, (n, 1)) == tg.tile_reshape(along, (1, n)), one, zero)
    near = tg.static(4.0 * m**0.5) * tg._tile_epsilon(one)
    rest, sweep = one, 0
    while (not rest <= near) and sweep < tg._tile_most_sweeps(one):
        rest = zero
        for turn in range(tg.static(n - 1 + n % 2)):
            partner = tg._tile_partners(along, turn)
            other = tg.tile_slice_indexed(a, partner, 1)
            squares, between = tg.tile_sum(a * a, axis=0), tg.tile_sum(a * other, axis=0)
            others = squares[partner]
            product = tg.sqrt(squares) * tg.sqrt(others)
            cosine = tg.where(between == zero, zero, tg.abs(between) / product)
            # A NaN is not near 0, and stays.
            cosine = tg.where(partner == along, squares - squares, cosine)
            rest = rest + tg.tile_sum(tg.where(cosine <= near, zero, cosine))[0]
            is_first = along < partner
            t = tg._tile_tangents(
                tg.where(is_first, squares, others), tg.where(is_first, others, squares), between
            )
            t = tg.where(partner == along, zero, tg.where(is_first, -t, t))
            c = tg.tile_reshape(1.0 / tg.sqrt(t * t + 1.0), (1, n))
            s = tg.tile_reshape(t, (1, n)) * c
            a, v = a * c + other * s, v * c + tg.tile_slice_indexed(v, partner, 1) * s
        sweep += 1
    squares = tg.tile_sum(a * a, axis=0)
    order = tg.tile_reshape(
        tg._tile_sorted_places(~tg.tile_reshape(tg._tile_sort_bits(squares), (1, n))), (n,)
    )
    a, v = tg.tile_slice_indexed(a, order, 1), tg.tile_slice_indexed(v, order, 1)
    u, r = tg.tile_qr(a)
    s = tg.tile_sum(
        tg.where(tg.tile_reshape(along, (n, 1)) == tg.tile_reshape(along, (1, n)), r, zero), axis=0
    )
    sign = tg.tile_reshape(tg.where(-tg.tile_min(v, axis=0) > tg.tile_max(v, axis=0), -one, one), (1, n))
    bad = not rest <= near
    missing = tg.where(bad, type(a[0, 0])(nan), zero)
    failed = tg.tile_full(shape=1, value=tg.where(bad, 1, 0))
    return u * sign + missing, s * size + missing, tg.tile_transpose(v * sign) + missing, failed


@tile_svd.vjp(keep="result")
def adjoint(result, grad):
    (u, s, vt, _), (of_u, of_s, of_vt, _) = result, grad
    n = s.shape[0]
    is_high, is_wide = u.shape[0] > n, vt.shape[1] > n
    along = tg.tile_arange(n, dtype=int)
    rows, columns = tg.tile_reshape(along, (n, 1)), tg.tile_reshape(along, (1, n))
    v, ut, of_v = tg.tile_transpose(vt), tg.tile_transpose(u), tg.tile_transpose(of_vt)
    wide, high = tg.tile_reshape(s, (1, n)), tg.tile_reshape(s, (n, 1))
    largest = tg.tile_max(s)[0]
    guard = tg.static(8.0 * n) * tg._tile_epsilon(largest) * largest * largest
    gaps = tg._tile_inverse_gaps((wide - high) * (wide + high), guard)
    left, right = ut @ of_u, vt @ of_v
    middle = gaps * (left - tg.tile_transpose(left)) * wide + high * gaps * (right - tg.tile_transpose(right))
    middle = middle + tg.where(rows == columns, tg.tile_reshape(of_s, (1, n)), 0.0)
    grown = u @ middle @ vt
    near = s <= tg.static(8.0 * n) * tg._tile_epsilon(largest) * largest
    inverse = tg.tile_reshape(tg.where(near, 0.0, 1.0 / tg.where(near, 1.0, s)), (1, n))
    if is_high:
        grown = grown + ((of_u - u @ left) * inverse) @ vt
    if is_wide:
        grown = grown + (u * inverse) @ tg.tile_transpose(of_v - v @ right)
    return grown


@tile_svd.reference
def reference(a, info=False):
    m, n = a.shape[-2:]
    k = min(m, n)
    batch = a.shape[:-2]
    u, s, vt = np.full((*batch, m, k), nan), np.full((*batch, k), nan), np.full((*batch, k, n), nan)
    failed = np.ones((*batch, 1), np.int32)
    for at in np.ndindex(batch):
        if np.isfinite(a[at]).all():
            u[at], s[at], vt[at] = np.linalg.svd(a[at], full_matrices=False)
            rows = vt[at] if m >= n else u[at].T
            sign = np.where(rows[np.arange(k), np.abs(rows).argmax(axis=1)] < 0, -1.0, 1.0)
            u[at], vt[at], failed[at] = u[at] * sign, vt[at] * sign[:, None], 0
    return u, s, vt, failed


def apart(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Matrices with singular values that are apart."""
    *batch, m, n = shape
    k = min(m, n)
    left, _ = np.linalg.qr(rng.standard_normal((*batch, m, k)))
    right, _ = np.linalg.qr(rng.standard_normal((*batch, n, k)))
    s = np.arange(1, k + 1) + rng.uniform(-0.2, 0.2, (*batch, k))
    return left * s[..., None, :] @ np.swapaxes(right, -1, -2)


@tile_svd.samples
def samples(rng: np.random.Generator) -> Iterator[Sample]:
    for shape in ((1, 1), (2, 2), (5, 4), (16, 16)):
        yield Sample(apart(rng, *shape).astype(np.float32), tolerance=1024)
    yield Sample(apart(rng, 40, 13), tolerance=1e4)
    yield Sample(apart(rng, 4, 4), tolerance=512, differentiable=True)
    yield Sample(apart(rng, 5, 3), tolerance=512, differentiable=True)
    yield Sample(apart(rng, 2, 2, 3), tolerance=512, info=True, differentiable=True)
    yield Sample(np.diag([1, 3]).astype(np.float16))
    yield Sample(np.array([[[1, 0], [nan, 2]], [[2, 0], [0, 1]]], np.float32), info=True)
    yield Refused(np.ones(3, np.float32), code="type-mismatch", says=("(3,)", "tile[Real, ..., M, N]"))
    yield Refused(np.ones((3, 3), np.int32), code="type-mismatch", says=("int32",))
