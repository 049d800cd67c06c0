"""The Cholesky factor of a symmetric matrix."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, nan
from typing import Any

import numpy as np

from tegula.declaration import Refused, Sample, cooperative, part
from tegula.signature import Asked, Extent, Real, Tile, constexpr
from tegula.stdlib.registry import tg
from tegula.stdlib.tiles.warps import WARP, fits_warp
from tegula.types import DType, float32, float64, int32

N, ONE, INFO = Extent("N"), 1, "info"
PANEL = 32
"""The number of columns of a panel. Narrower panels take longer to compile, wider panels take longer to run."""
NARROW = 8
"""The number of columns of a panel that one thread factors."""
BLOCK, ROWS_OF_BLOCK = 4, 2
"""The number of columns of a block that one thread holds in registers, and of rows below the diagonal. AVX2 has 16
registers."""
ROWS, COLUMNS = 4, 8
"""The grid of the lanes of a warp that holds a matrix."""
FillMode = constexpr["lower", "upper"]


@cooperative
def tile_cholesky(
    a: Tile[Real, ..., N, N], fill_mode: FillMode = "lower", info: constexpr[bool] = False
) -> tuple[Tile[Real, ..., N, N], Asked[INFO, Tile[int32, ..., ONE]]]:
    """The Cholesky factor of symmetric matrices: L with L @ L.T = a, or U with U.T @ U = a.

    Parameters:
        a: a tile (..., N, N) of floats, of which only the triangle that fill_mode names is read; float16 and bfloat16
            are computed in float32.
        fill_mode: "lower" or "upper", a constant.
        info: whether to return the second result too, a constant bool.
    Returns:
        a tile of the shape and dtype of `a`, 0 in the other triangle. A pivot that is not positive is NaN, and so are
        all elements that depend on the pivot. With `info`, also a tile (..., 1) of int32: 0, or the 1-based index of
        the first such pivot.
    Raises:
        type-mismatch: `a` is not a tile of square matrices of floats, or there is no such fill_mode.
    Gradient:
        with L the result, G the adjoint and P the lower triangle of L.T @ G with half of its diagonal: the lower
        triangle of inv(L).T @ (P + P.T) @ inv(L) with half of its diagonal, 0 in the triangle that is not read;
        transposed for "upper".
    Source:
        right-looking factorisation; the adjoint of Murray, "Differentiation of the Cholesky decomposition" (2016).
    """
    ...


def fits_grid(n: int, group: int, dtype: DType) -> bool:
    """Whether the lanes of a warp hold a matrix as a grid. Smaller matrices share warps, with a row in each lane."""
    return n > WARP // 2 and fits_warp(n, group, dtype)


@tile_cholesky.program(
    when=lambda N, fill_mode, group: N <= WARP and N % BLOCK == 0 and group == 1 and fill_mode == "lower"
)
def lower_in_blocks(a):
    """Factors blocks of 4 x 4 elements, which stay in registers from the load to the store: subtracts the products of
    factored columns on the left, one column after the other, and solves with the factor of the diagonal block."""
    n, one, zero = a.shape[0], type(a[0, 0])(1.0), type(a[0, 0])(0.0)
    factor = tg.tile_zeros(shape=(n, n), dtype=type(zero))
    for j in range(0, n, BLOCK):
        corner: Any = ()
        for r in tg.static(range(BLOCK)):
            row: Any = ()
            for c in tg.static(range(r + 1)):
                row = (*row, a[j + r, j + c])
            corner = (*corner, row)
        for k in range(j):
            column = factor[j, k], factor[j + 1, k], factor[j + 2, k], factor[j + 3, k]
            updated_corner: Any = ()
            for r in tg.static(range(BLOCK)):
                updated_row: Any = ()
                for c in tg.static(range(r + 1)):
                    updated_row = (*updated_row, corner[r][c] - column[r] * column[c])
                updated_corner = (*updated_corner, updated_row)
            corner = updated_corner
        diagonal: Any = ()
        inverses: Any = ()
        for r in tg.static(range(BLOCK)):
            row: Any = ()
            d = corner[r][r]
            for c in tg.static(range(r)):
                element = corner[r][c]
                for s in tg.static(range(c)):
                    element = element - row[s] * diagonal[c][s]
                row = (*row, element * inverses[c])
                d = d - row[c] * row[c]
            pivot = tg.where(d > 0.0, tg.sqrt(d), type(d)(nan))
            diagonal, inverses = (*diagonal, (*row, pivot)), (*inverses, one / pivot)
            for c in tg.static(range(r + 1)):
                factor[j + r, j + c] = diagonal[r][c]
        for i in range(j + BLOCK, n, ROWS_OF_BLOCK):
            block: Any = ()
            for r in tg.static(range(ROWS_OF_BLOCK)):
                block = (*block, (a[i + r, j], a[i + r, j + 1], a[i + r, j + 2], a[i + r, j + 3]))
            for k in range(j):
                right = factor[j, k], factor[j + 1, k], factor[j + 2, k], factor[j + 3, k]
                updated_block: Any = ()
                for r in tg.static(range(ROWS_OF_BLOCK)):
                    below = factor[i + r, k]
                    updated: Any = ()
                    for c in tg.static(range(BLOCK)):
                        updated = (*updated, block[r][c] - below * right[c])
                    updated_block = (*updated_block, updated)
                block = updated_block
            for r in tg.static(range(ROWS_OF_BLOCK)):
                solved: Any = ()
                for c in tg.static(range(BLOCK)):
                    x = block[r][c]
                    for s in tg.static(range(c)):
                        x = x - solved[s] * diagonal[c][s]
                    solved = (*solved, x * inverses[c])
                    factor[i + r, j + c] = solved[c]
    return factor, tg._tile_first_nan(factor)


@tile_cholesky.program(when=lambda N, fill_mode, group: N > NARROW and group == 1 and fill_mode == "lower")
def lower_by_one_thread(a):
    """Factors NARROW columns at a time: first subtracts the product of the factored columns on the left, then subtracts
    multiples of each column from the columns on its right. Only the lower triangle and the diagonal blocks are
    computed."""
    n = a.shape[0]
    factor = tg.tile_zeros(shape=(n, n), dtype=type(a[0, 0]))
    for p in tg.static(range(0, n, NARROW)):
        b, m = tg.static(min(NARROW, n - p)), tg.static(n - p)
        panel = a[p:, p : p + b]
        if tg.static(p > 0):
            panel = panel - factor[p:, :p] @ tg.tile_transpose(factor[p : p + b, :p])
        index = tg.tile_arange(m, dtype=int)
        rows, columns = tg.tile_reshape(index, (m, 1)), tg.tile_reshape(index[:b], (1, b))
        for k in range(b):
            d = panel[k, k]
            pivot = tg.where(d > 0.0, tg.sqrt(d), type(d)(nan))
            inverse = 1.0 / pivot
            column = tg.where(index > k, panel[:, k] * inverse, tg.where(index == k, pivot, type(d)(0.0)))
            below, right = tg.tile_reshape(column, (m, 1)), tg.tile_reshape(column[:b], (1, b))
            panel = tg.where(columns > k, panel - below * right, tg.where(columns == k, below, panel))
        tg.tile_assign(factor, tg.where(rows >= columns, panel, 0.0), (p, p))
    return factor, tg._tile_first_nan(factor)


@tile_cholesky.program(
    when=lambda N, fill_mode, group, Real, partial: (
        fill_mode == "lower" and not partial and fits_grid(N, group, Real)
    )
)
def lower_on_grid(a):
    if tg._on_gpu():
        return tg._tile_cholesky_on_grid(a)
    else:
        return tg._tile_cholesky_by_columns(a)


@cooperative
def _tile_cholesky_on_grid(a: Tile[Real, N, N]) -> tuple[Tile[Real, N, N], Tile[int32, ONE]]:
    """The lower factor in the registers of a warp. Lane (i, j) of a grid of 4 x 8 holds rows i, i + 4, .. and columns
    j, j + 8, ..; slots that lie above the diagonal in all lanes are neither read nor computed. In step k each lane
    receives the elements of column k for its rows and its columns by shuffles. Steps beyond the matrix change only
    padding."""
    n, lane = a.shape[0], tg.group_lane()
    row, column = lane // COLUMNS, lane % COLUMNS
    rows, columns = tg.static(-(-n // ROWS)), tg.static(-(-n // COLUMNS))
    source = column % ROWS * COLUMNS + column
    x = tg.tile_local(a, (ROWS, COLUMNS))
    one, zero = type(x[0, 0])(1.0), type(x[0, 0])(0.0)
    for row_slot in tg.unrolled(rows):
        column_slot = row_slot // 2
        for step in tg._rolled(ROWS):
            k = row_slot % 2 * ROWS + step
            d = tg.lane_shuffle(x[row_slot, column_slot], step * COLUMNS + k)
            pivot, inverse = tg._tile_root_of_pivot(d)
            scale = tg.where(column == k, inverse, one)
            below, right = tg.vector(zero, length=rows), tg.vector(zero, length=columns)
            for r in tg.unrolled(rows):
                if r >= row_slot:
                    x[r, column_slot] = x[r, column_slot] * scale
            x[row_slot, column_slot] = tg.where(lane == step * COLUMNS + k, pivot, x[row_slot, column_slot])
            for r in tg.unrolled(rows):
                if r >= row_slot:
                    below[r] = tg.lane_shuffle(x[r, column_slot], k, COLUMNS)
            for c in tg.unrolled(columns):
                if c >= column_slot:
                    # Row i of this lane's column is among the rows of the lanes with row i % 4.
                    upper, lower = below[2 * c], below[tg.min(2 * c + 1, tg.static(rows - 1))]
                    right[c] = tg.lane_shuffle(tg.where(column < ROWS, upper, lower), source)
                    for r in tg.unrolled(rows):
                        if r >= row_slot and r >= 2 * c:
                            updated = x[r, c] - below[r] * right[c]
                            if c > column_slot:
                                x[r, c] = updated
                            else:
                                x[r, c] = tg.where(column > k, updated, x[r, c])
    for c in tg.unrolled(columns):
        for r in tg.unrolled(rows):
            if r < 2 * c:
                x[r, c] = zero
            elif r < 2 * c + 2:
                x[r, c] = tg.where(row + r * ROWS >= column + c * COLUMNS, x[r, c], zero)
    factor = tg.tile_from_local(x, (ROWS, COLUMNS), (n, n))
    return factor, tg._tile_first_nan(factor)


@tile_cholesky.program(
    when=lambda N, fill_mode, group, Real: (
        N > PANEL and not fits_warp(N, group, Real) and fill_mode == "lower"
    )
)
def lower_blocked(a):
    """Factors PANEL columns at a time, and subtracts the product of each panel with its transpose from the trailing
    matrix."""
    n = a.shape[0]
    factor = tg.tile_zeros(shape=(n, n), dtype=type(a[0, 0]))
    for p in tg.static(range(0, n, PANEL)):
        b, m = tg.static(min(PANEL, n - p)), tg.static(n - p)
        panel = a[:, :b]
        index = tg.tile_arange(m, dtype=int)
        rows, columns = tg.tile_reshape(index, (m, 1)), tg.tile_reshape(index[:b], (1, b))
        for k in range(b):
            d = panel[k, k]
            pivot = tg.where(d > 0.0, tg.sqrt(d), type(d)(nan))
            column = tg.where(index > k, panel[:, k] / pivot, tg.where(index == k, pivot, type(d)(0.0)))
            below, right = tg.tile_reshape(column, (m, 1)), tg.tile_reshape(column[:b], (1, b))
            panel = tg.where(columns > k, panel - below * right, tg.where(columns == k, below, panel))
        tg.tile_assign(factor, tg.where(rows >= columns, panel, 0.0), (p, p))
        if tg.static(m > b):
            a = a[b:, b:] - panel[b:, :] @ tg.tile_transpose(panel[b:, :])
    return factor, tg._tile_first_nan(factor)


@tile_cholesky.program(when=lambda fill_mode: fill_mode == "lower")
def lower_unblocked(a):
    return tg._tile_cholesky_by_columns(a)


@cooperative
def _tile_cholesky_by_columns(a: Tile[Real, N, N]) -> tuple[Tile[Real, N, N], Tile[int32, ONE]]:
    """Factors column by column, and subtracts the outer product of each column with itself from the trailing matrix."""
    n = a.shape[0]
    index = tg.tile_arange(n, dtype=int)
    rows, columns = tg.tile_reshape(index, (n, 1)), tg.tile_reshape(index, (1, n))
    for k in range(n):
        d = a[k, k]
        pivot = tg.where(d > 0.0, tg.sqrt(d), type(d)(nan))
        inverse = 1.0 / pivot
        column = tg.where(index > k, a[:, k] * inverse, tg.where(index == k, pivot, type(d)(0.0)))
        below, right = tg.tile_reshape(column, (n, 1)), tg.tile_reshape(column, (1, n))
        a = tg.where(columns > k, a - below * right, tg.where(columns == k, below, a))
    factor = tg.where(rows >= columns, a, 0.0)
    return factor, tg._tile_first_nan(factor)


@tile_cholesky.program(when=lambda fill_mode: fill_mode == "upper")
def upper(a):
    factor, first = tg.tile_cholesky(tg.tile_transpose(a), info=True)
    return tg.tile_transpose(factor), first


@part
def _tile_root_of_pivot(d: float32):
    """The root of a pivot, NaN if the pivot is not positive, and its reciprocal."""
    root = tg.where(d > 0.0, tg.sqrt(d), nan)
    return root, tg.where(d == inf, 0.0, tg._reciprocal(root))


@part
def _tile_root_of_pivot(d: float64):
    root = tg.where(d > 0.0, tg.sqrt(d), float64(nan))
    return root, 1.0 / root


@cooperative
def _tile_first_nan(factor: Tile[Real, N, N]) -> Tile[int32, ONE]:
    """The 1-based index of the first NaN on the diagonal of a matrix; 0 if there is none."""
    n = factor.shape[0]
    index = tg.tile_arange(n, dtype=int)
    rows, columns = tg.tile_reshape(index, (n, 1)), tg.tile_reshape(index, (1, n))
    first = tg.tile_min(tg.where((rows == columns) & tg.isnan(factor), rows, n))
    return tg.where(first < n, first + 1, 0)


@tile_cholesky.vjp(keep="result")
def adjoint(result, grad, fill_mode):
    """With P the lower triangle of L.T @ grad with half of its diagonal: the lower triangle of inv(L).T @ (P + P.T) @
    inv(L) with half of its diagonal."""
    (result, _), (grad, _) = result, grad
    n = grad.shape[0]
    index = tg.tile_arange(n, dtype=int)
    rows, columns = tg.tile_reshape(index, (n, 1)), tg.tile_reshape(index, (1, n))
    upper = result if fill_mode == "upper" else tg.tile_transpose(result)
    grad_factor = tg.tile_transpose(grad) if fill_mode == "upper" else grad
    product = upper @ grad_factor
    p = tg.where(rows > columns, product, tg.where(rows == columns, 0.5 * product, 0.0))
    half = tg.tile_upper_solve(upper, p + tg.tile_transpose(p))
    b = tg.tile_upper_solve(upper, tg.tile_transpose(half))
    grad_a = tg.where(rows > columns, b, tg.where(rows == columns, 0.5 * b, 0.0))
    return tg.tile_transpose(grad_a) if fill_mode == "upper" else grad_a


@tile_cholesky.reference
def reference(a, fill_mode="lower", info=False):
    triangle = a if fill_mode == "lower" else np.swapaxes(a, -1, -2)
    factor = np.zeros_like(a)
    for k in range(a.shape[-1]):
        row = factor[..., k, :k]
        d = triangle[..., k, k] - (row * row).sum(-1)
        factor[..., k, k] = np.sqrt(np.where(d > 0, d, nan))
        below = triangle[..., k + 1 :, k] - np.einsum("...ij,...j->...i", factor[..., k + 1 :, :k], row)
        factor[..., k + 1 :, k] = below / factor[..., k, k, None]
    is_nan = np.isnan(np.diagonal(factor, axis1=-2, axis2=-1))
    first = np.where(is_nan.any(-1), is_nan.argmax(-1) + 1, 0).astype(np.int32)[..., None]
    return (factor if fill_mode == "lower" else np.swapaxes(factor, -1, -2)), first


def positive_definite(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Symmetric positive definite matrices whose eigenvalues are far from 0."""
    *_, n = shape
    m = rng.standard_normal(shape)
    return m @ np.swapaxes(m, -1, -2) / n + np.eye(n)


@tile_cholesky.samples
def samples(rng: np.random.Generator) -> Iterator[Sample]:
    for n in (1, 2, 5, 16):
        yield Sample(positive_definite(rng, n, n).astype(np.float32), differentiable=n == 5)
    with_nan_above = positive_definite(rng, 6, 6) + np.triu(np.full((6, 6), np.nan), 1)
    yield Sample(with_nan_above)
    yield Sample(with_nan_above.T, fill_mode="upper")
    yield Sample(positive_definite(rng, 4, 4).astype(np.float32), "upper", differentiable=True)
    yield Sample(positive_definite(rng, 2, 3, 4, 4), differentiable=True)
    yield Sample(positive_definite(rng, 3, 3).astype(np.float16))
    yield Sample(
        positive_definite(rng, 40, 40).astype(np.float32) + np.triu(np.full((40, 40), np.float32(nan)), 1)
    )
    for d in (0.0, -1.0, nan):
        yield Sample(positive_definite(rng, 4, 4) * np.diag([1, 1, d, 1]) + np.diag([0, 0, d, 0]), info=True)
    yield Sample(positive_definite(rng, 3, 3), "upper", info=True, differentiable=True)
    yield Sample(positive_definite(rng, 2, 40, 40) - np.diag(np.arange(40) > 35), info=True, tolerance=1e4)
    yield Refused(np.ones((3, 4), np.float32), code="type-mismatch", says=("(3, 4)", "N is 3 and 4"))
    yield Refused(np.ones(3, np.float32), code="type-mismatch", says=("(3,)", "tile[Real, ..., N, N]"))
    yield Refused(np.ones((3, 3), np.int32), code="type-mismatch", says=("int32",))
    yield Refused(
        np.ones((3, 3), np.float32), "both", code="type-mismatch", says=("'lower' or 'upper', got 'both'",)
    )
