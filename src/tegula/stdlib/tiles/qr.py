"""The QR decomposition of a matrix."""

from __future__ import annotations

from collections.abc import Iterator
from math import nan

import numpy as np

from tegula.declaration import Refused, Sample, cooperative
from tegula.signature import Extent, Real, Tile
from tegula.stdlib.registry import tg

M, N = Extent("M"), Extent("N")


@cooperative
def tile_qr(a: Tile[Real, ..., M, N]) -> tuple[Tile[Real, ..., M, N], Tile[Real, ..., N, N]]:
    """The QR decomposition of matrices with at least as many rows as columns: a = q @ r.

    Parameters:
        a: a tile (..., M, N) of floats with M >= N; float16 and bfloat16 are computed in float32.
    Returns:
        q, a tile (..., M, N) with orthonormal columns, and r, a tile (..., N, N), 0 below the diagonal, which is not
        negative.
    Raises:
        type-mismatch: `a` is not a tile of floats, has no two dimensions, or is wider than high.
    Gradient:
        with G, H the adjoints of q and r, and T = r @ H.T - G.T @ q: (G + q @ (the lower triangle of T, mirrored))
        @ inv(r).T, which a matrix without full rank does not have.
    Source:
        LAPACK geqrf: Householder reflections.
    """
    ...


@tile_qr.program(when=lambda M, N, group: M >= N and group == 1)
def by_one_thread(a):
    """Subtracts the multiples of each normal from one row after the other."""
    m, n = a.shape
    row_index, column_index = tg.tile_arange(m, dtype=int), tg.tile_arange(n, dtype=int)
    rows, columns = tg.tile_reshape(column_index, (n, 1)), tg.tile_reshape(column_index, (1, n))
    one, zero = type(a[0, 0])(1.0), type(a[0, 0])(0.0)
    matrix, normals = tg.copy(a), tg.tile_zeros(shape=(n, m), dtype=type(one))
    scales, diagonal = tg.tile_zeros(shape=n, dtype=type(one)), tg.tile_zeros(shape=n, dtype=type(one))
    for k in range(n):
        column = tg.where(row_index >= k, matrix[:, k], zero)
        # Squares of the scaled column neither overflow nor underflow. A NaN or an infinity makes all results NaN.
        size = tg.tile_max(tg.abs(column))[0]
        column = column / tg.where(size > zero, size, one)
        square, head = tg.tile_sum(column * column)[0], column[k]
        reflected, scale = tg._tile_reflected(square, head), tg._tile_reflection_scale(square, head)
        normals[k, :] = tg.where(row_index == k, column - reflected, column)
        scales[k], diagonal[k] = scale, reflected * size
        inner = tg.tile_zeros(shape=n, dtype=type(one))
        for j in range(k, m):
            inner = inner + matrix[j, :] * normals[k, j]
        inner = inner * scale
        for j in range(k, m):
            matrix[j, :] = matrix[j, :] - inner * normals[k, j]
    q = tg._tile_product_of_reflections(normals, scales)
    sign = tg.where(diagonal < zero, -one, one)
    nan_if_failed = tg.where(tg.isnan(tg.tile_sum(scales)[0]), type(one)(nan), zero)
    upper = tg.where(rows == columns, diagonal, matrix[:n, :]) + nan_if_failed
    upper = tg.where(rows <= columns, upper, zero)
    return q * tg.tile_reshape(sign, (1, n)), upper * tg.tile_reshape(sign, (n, 1))


@tile_qr.program(when=lambda M, N: M >= N)
def householder_qr(a):
    m, n = a.shape
    index, column_index = tg.tile_arange(m, dtype=int), tg.tile_arange(n, dtype=int)
    rows, columns = tg.tile_reshape(index, (m, 1)), tg.tile_reshape(column_index, (1, n))
    kept = tg.tile_zeros(shape=(m, n), dtype=type(a[0, 0]))
    for k in range(n):
        column = tg.where(index >= k, a[:, k], 0.0)
        # The matrix is scaled, so that squares neither overflow nor underflow. A NaN or an infinity makes all results
        # NaN.
        size = tg.tile_max(tg.abs(column))[0]
        column = column / tg.where(size > 0.0, size, 1.0)
        head, length = column[k], tg.sqrt(tg.tile_sum(column * column)[0])
        mirror = tg.where(index == k, column + tg.where(head < 0.0, -length, length), column)
        norm = tg.tile_sum(mirror * mirror)[0]
        mirror = mirror * tg.sqrt(2.0 / tg.where(norm == 0.0, 1.0, norm))
        mirror = tg.tile_reshape(mirror, (m, 1))
        a = a - mirror * tg.tile_reshape(tg.tile_sum(mirror * a, axis=0), (1, n))
        kept = tg.where(columns == k, mirror, kept)
    q = tg.where(rows == columns, type(a[0, 0])(1.0), type(a[0, 0])(0.0))
    for done in range(n):
        mirror = tg.tile_reshape(kept[:, n - 1 - done], (m, 1))
        q = q - mirror * tg.tile_reshape(tg.tile_sum(mirror * q, axis=0), (1, n))
    r = a[:n, :]
    diagonal = tg.tile_sum(tg.where(rows == columns, a, 0.0), axis=0)
    sign = tg.where(diagonal < 0.0, type(a[0, 0])(-1.0), type(a[0, 0])(1.0))
    upper = tg.where(rows[:n, :] <= columns, r, 0.0)
    return q * tg.tile_reshape(sign, (1, n)), upper * tg.tile_reshape(sign, (n, 1))


@tile_qr.vjp(keep="result")
def adjoint(result, grad):
    q, r = result
    grad_q, grad_r = grad
    n = r.shape[0]
    index = tg.tile_arange(n, dtype=int)
    rows, columns = tg.tile_reshape(index, (n, 1)), tg.tile_reshape(index, (1, n))
    grad_r = tg.where(rows <= columns, grad_r, 0.0)
    t = r @ tg.tile_transpose(grad_r) - tg.tile_transpose(grad_q) @ q
    mirrored = tg.where(rows >= columns, t, tg.tile_transpose(t))
    return tg.tile_transpose(tg.tile_upper_solve(r, tg.tile_transpose(grad_q + q @ mirrored)))


@tile_qr.reference
def reference(a):
    q, r = np.linalg.qr(a)
    sign = np.where(np.diagonal(r, axis1=-2, axis2=-1) < 0, -1.0, 1.0)
    return q * sign[..., None, :], r * sign[..., None]


@tile_qr.samples
def samples(rng: np.random.Generator) -> Iterator[Sample]:
    for shape in ((1, 1), (5, 2), (4, 4), (16, 16)):
        yield Sample(rng.standard_normal(shape).astype(np.float32), tolerance=1024)
    yield Sample(rng.standard_normal((40, 9)), tolerance=1024)
    yield Sample(rng.standard_normal((4, 4)), tolerance=1024, differentiable=True)
    yield Sample(rng.standard_normal((2, 5, 3)), tolerance=1024, differentiable=True)
    yield Sample(np.array([[3, 0], [4, 5]], np.float16), tolerance=4)
    yield Sample(np.diag([1e-30, 1e30]).astype(np.float32))
    yield Refused(np.ones((2, 3), np.float32), code="type-mismatch", says=("(2, 3)", "M=2, N=3"))
    yield Refused(np.ones(3, np.float32), code="type-mismatch", says=("(3,)", "tile[Real, ..., M, N]"))
    yield Refused(np.ones((3, 3), np.int32), code="type-mismatch", says=("int32",))
