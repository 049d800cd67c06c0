"""The QR decomposition of a matrix."""

from __future__ import annotations

from collections.abc import Iterator
from math import nan

import numpy as np

from tegula.declaration import Refused, Sample, cooperative
from tegula.signature import Extent, Real, Tile
from tegula.stdlib.registry import tg
from tegula.types import int32

M, N, P = Extent("M"), Extent("N"), Extent("P")
PANEL = 8
"""The number of reflections that are applied together."""
UNBLOCKED = 32
"""The maximum number of columns of which one thread applies the reflections one by one. Panels take more code."""


@cooperative
def tile_qr(a: Tile[Real, ..., M, N]) -> tuple[Tile[Real, ..., M, N], Tile[Real, ..., N, N]]:
    """The QR decomposition of matrices with M >= N: a = q @ r.

    Parameters:
        a: a tile (..., M, N) of floats with M >= N; float16 and bfloat16 are computed in float32.
    Returns:
        q, a tile (..., M, N) with orthonormal columns, and r, an upper triangular tile (..., N, N) with a non-negative
        diagonal.
    Raises:
        type-mismatch: `a` is not a tile of floats, has fewer than two dimensions, or has more columns than rows.
    Gradient:
        with G, H the adjoints of q and r, and T = r @ H.T - G.T @ q: (G + q @ (the lower triangle of T, mirrored))
        @ inv(r).T, which a matrix without full rank does not have.
    Source:
        LAPACK geqrf: Householder reflections.
    """
    ...


@cooperative
def _tile_coefficients(
    x: Tile[Real, P, M], v: Tile[Real, P, M], factor: Tile[Real, P, P], first: int32
) -> Tile[Real, P, P]:
    """x @ v.T @ factor. `first`: a multiple of P; elements of `v` before column `first` are 0."""
    size, m = x.shape
    products = tg.tile_zeros(shape=(size, size), dtype=type(x[0, 0]))
    for i in range(first, m, size):
        block = tg.tile_view(v, (0, i), (size, size))
        products = products + tg.tile_view(x, (0, i), (size, size)) @ tg.tile_transpose(block)
    return products @ factor


@tile_qr.program(when=lambda M, N, group: M >= N and N > UNBLOCKED and group == 1)
def by_panels(a):
    """Applies the reflections of PANEL columns at a time to the other columns. The matrices of the program have the
    columns of the decomposition as rows."""
    m, n = a.shape
    height, width = tg.static(-(-m // PANEL) * PANEL), tg.static(-(-n // PANEL) * PANEL)
    one, zero = type(a[0, 0])(1.0), type(a[0, 0])(0.0)
    row_index, panel_index = tg.tile_arange(height, dtype=int), tg.tile_arange(PANEL, dtype=int)
    columns = tg.tile_zeros(shape=(width, height), dtype=type(one))
    tg.tile_assign(columns, tg.tile_transpose(a), (0, 0))
    reflectors = tg.tile_zeros(shape=(width, height), dtype=type(one))
    factors = tg.tile_zeros(shape=(width, PANEL), dtype=type(one))
    diagonal = tg.tile_zeros(shape=width, dtype=type(one))
    scales = tg.tile_zeros(shape=width, dtype=type(one))
    for p in range(0, width, PANEL):
        panel = tg.tile_view(columns, (p, 0), (PANEL, height))
        for c in range(PANEL):
            k = p + c
            column = tg.where(row_index >= k, columns[k, :], zero)
            # Squares of the scaled column neither overflow nor underflow. A NaN or an infinity makes all results NaN.
            largest = tg.tile_max(tg.abs(column))[0]
            column = column / tg.where(largest > zero, largest, one)
            squared_norm, head = tg.tile_sum(column * column)[0], column[k]
            reflected, scale = (
                tg._tile_reflected(squared_norm, head),
                tg._tile_reflection_scale(squared_norm, head),
            )
            reflector = tg.where(row_index == k, column - reflected, column)
            reflectors[k, :] = reflector
            scales[k], diagonal[k] = scale, reflected * largest
            inner = panel @ tg.tile_reshape(reflector, (height, 1)) * scale
            for j in range(c + 1, PANEL):
                columns[p + j, :] = columns[p + j, :] - reflector * inner[j, 0]
        vectors = tg.tile_view(reflectors, (p, 0), (PANEL, height))
        inner = vectors @ tg.tile_transpose(vectors)
        factor = tg.tile_zeros(shape=(PANEL, PANEL), dtype=type(one))
        for c in range(PANEL):
            column = tg.where(panel_index < c, inner[:, c], zero)
            sums = tg.tile_sum(factor * tg.tile_reshape(column, (1, PANEL)), axis=1)
            column = tg.where(panel_index == c, one, -sums) * scales[p + c]
            factor = tg.where(
                tg.tile_reshape(panel_index, (1, PANEL)) == c, tg.tile_reshape(column, (PANEL, 1)), factor
            )
        tg.tile_assign(factors, factor, (p, 0))
        for j in range(p + PANEL, width, PANEL):
            part = tg.tile_view(columns, (j, 0), (PANEL, height))
            coefficients = tg._tile_coefficients(part, vectors, factor, p)
            for i in range(p, height, PANEL):
                block = coefficients @ tg.tile_view(vectors, (0, i), (PANEL, PANEL))
                tg.tile_assign(columns, tg.tile_view(columns, (j, i), (PANEL, PANEL)) - block, (j, i))
    rows = tg.tile_reshape(tg.tile_arange(width, dtype=int), (width, 1))
    q = tg.copy(tg.where(rows == tg.tile_reshape(row_index, (1, height)), one, zero))
    for step in range(0, width, PANEL):
        p = width - PANEL - step
        vectors = tg.tile_view(reflectors, (p, 0), (PANEL, height))
        factor = tg.tile_transpose(tg.tile_view(factors, (p, 0), (PANEL, PANEL)))
        for j in range(p, width, PANEL):
            part = tg.tile_view(q, (j, 0), (PANEL, height))
            coefficients = tg._tile_coefficients(part, vectors, factor, p)
            for i in range(p, height, PANEL):
                block = coefficients @ tg.tile_view(vectors, (0, i), (PANEL, PANEL))
                tg.tile_assign(q, tg.tile_view(q, (j, i), (PANEL, PANEL)) - block, (j, i))
    sign = tg.where(diagonal < zero, -one, one)
    nan_if_failed = tg.where(tg.isnan(tg.tile_sum(scales)[0]), type(one)(nan), zero)
    index = tg.tile_arange(n, dtype=int)
    rows, column_index = tg.tile_reshape(index, (n, 1)), tg.tile_reshape(index, (1, n))
    upper = (
        tg.where(
            rows == column_index, tg.tile_reshape(diagonal[:n], (1, n)), tg.tile_transpose(columns[:n, :n])
        )
        + nan_if_failed
    )
    upper = tg.where(rows <= column_index, upper, zero)
    q = tg.tile_transpose(q[:n, :m])
    return q * tg.tile_reshape(sign[:n], (1, n)), upper * tg.tile_reshape(sign[:n], (n, 1))


@tile_qr.program(when=lambda M, N, group: M >= N and group == 1)
def by_one_thread(a):
    """Applies each Householder reflection to one row of the matrix after another."""
    m, n = a.shape
    row_index, column_index = tg.tile_arange(m, dtype=int), tg.tile_arange(n, dtype=int)
    rows, columns = tg.tile_reshape(column_index, (n, 1)), tg.tile_reshape(column_index, (1, n))
    one, zero = type(a[0, 0])(1.0), type(a[0, 0])(0.0)
    matrix, reflectors = tg.copy(a), tg.tile_zeros(shape=(n, m), dtype=type(one))
    scales, diagonal = tg.tile_zeros(shape=n, dtype=type(one)), tg.tile_zeros(shape=n, dtype=type(one))
    for k in range(n):
        column = tg.where(row_index >= k, matrix[:, k], zero)
        # Squares of the scaled column neither overflow nor underflow. A NaN or an infinity makes all results NaN.
        largest = tg.tile_max(tg.abs(column))[0]
        column = column / tg.where(largest > zero, largest, one)
        squared_norm, head = tg.tile_sum(column * column)[0], column[k]
        reflected, scale = (
            tg._tile_reflected(squared_norm, head),
            tg._tile_reflection_scale(squared_norm, head),
        )
        reflectors[k, :] = tg.where(row_index == k, column - reflected, column)
        scales[k], diagonal[k] = scale, reflected * largest
        inner_products = tg.tile_zeros(shape=n, dtype=type(one))
        for j in range(k, m):
            inner_products = inner_products + matrix[j, :] * reflectors[k, j]
        inner_products = inner_products * scale
        for j in range(k, m):
            matrix[j, :] = matrix[j, :] - inner_products * reflectors[k, j]
    q = tg._tile_product_of_reflections(reflectors, scales)
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
    reflectors = tg.tile_zeros(shape=(m, n), dtype=type(a[0, 0]))
    for k in range(n):
        column = tg.where(index >= k, a[:, k], 0.0)
        # The matrix is scaled, so that squares neither overflow nor underflow. A NaN or an infinity makes all results
        # NaN.
        largest = tg.tile_max(tg.abs(column))[0]
        column = column / tg.where(largest > 0.0, largest, 1.0)
        head, length = column[k], tg.sqrt(tg.tile_sum(column * column)[0])
        reflector = tg.where(index == k, column + tg.where(head < 0.0, -length, length), column)
        squared_norm = tg.tile_sum(reflector * reflector)[0]
        reflector = reflector * tg.sqrt(2.0 / tg.where(squared_norm == 0.0, 1.0, squared_norm))
        reflector = tg.tile_reshape(reflector, (m, 1))
        a = a - reflector * tg.tile_reshape(tg.tile_sum(reflector * a, axis=0), (1, n))
        reflectors = tg.where(columns == k, reflector, reflectors)
    q = tg.where(rows == columns, type(a[0, 0])(1.0), type(a[0, 0])(0.0))
    for step in range(n):
        reflector = tg.tile_reshape(reflectors[:, n - 1 - step], (m, 1))
        q = q - reflector * tg.tile_reshape(tg.tile_sum(reflector * q, axis=0), (1, n))
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
    for shape in ((40, 9), (44, 37)):
        yield Sample(rng.standard_normal(shape), tolerance=1024)
    yield Sample(rng.standard_normal((4, 4)), tolerance=1024, differentiable=True)
    yield Sample(rng.standard_normal((2, 5, 3)), tolerance=1024, differentiable=True)
    yield Sample(np.array([[3, 0], [4, 5]], np.float16), tolerance=4)
    yield Sample(np.diag([1e-30, 1e30]).astype(np.float32))
    yield Refused(np.ones((2, 3), np.float32), code="type-mismatch", says=("(2, 3)", "M=2, N=3"))
    yield Refused(np.ones(3, np.float32), code="type-mismatch", says=("(3,)", "tile[Real, ..., M, N]"))
    yield Refused(np.ones((3, 3), np.int32), code="type-mismatch", says=("int32",))
