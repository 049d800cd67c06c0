"""The inverse of a square matrix."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

import numpy as np

from tegula.declaration import Refused, Sample, cooperative, part
from tegula.signature import Extent, Real, Tile
from tegula.stdlib.registry import tg
from tegula.stdlib.tiles.lu import is_padded, well_pivoted
from tegula.stdlib.tiles.warps import MATRIX_REGISTERS, PLACES, WARP, fits_lanes, fits_warp

N = Extent("N")
SOLVED = 24
"""The maximum number of rows for which one thread solves equations: moving rows and columns to their places would take
longer than the steps that elimination in place saves."""


@cooperative
def tile_inverse(a: Tile[Real, ..., N, N]) -> Tile[Real, ..., N, N]:
    """The inverses of square matrices, by elimination with partial pivoting.

    Parameters:
        a: a tile (..., N, N) of floats; float16 and bfloat16 are computed in float32.
    Returns:
        a tile of the shape and dtype of `a`; for a singular matrix infinities and NaN, as IEEE 754 says.
    Raises:
        type-mismatch: `a` is not a tile of square matrices of floats.
    Gradient:
        with x the result: -x.T @ the adjoint @ x.T.
    Source:
        LAPACK getri; Gauss-Jordan elimination, in a block of one warp.
    """
    n = a.shape[0]
    index = tg.tile_arange(n, dtype=int)
    rows, columns = tg.tile_reshape(index, (n, 1)), tg.tile_reshape(index, (1, n))
    return tg.tile_solve(a, tg.where(rows == columns, type(a[0, 0])(1.0), type(a[0, 0])(0.0)))


@tile_inverse.program(when=lambda N, group: group == 1 and N > SOLVED)
def by_one_thread(a):
    """As `_tile_inverse_in_place`, with the columns of the matrix as rows (see `_tile_eliminate`)."""
    n = a.shape[0]
    length = tg.static(n + is_padded(n))
    columns = tg.tile_transpose(a)
    if tg.static(is_padded(n)):
        columns = tg.tile_concat((columns, tg.tile_zeros(shape=(n, length - n), dtype=type(a[0, 0]))), axis=1)
    index, column_index = (
        tg.tile_arange(length, dtype=int),
        tg.tile_reshape(tg.tile_arange(n, dtype=int), (n, 1)),
    )
    step, order, free = index, index, index < n
    zero, one = type(a[0, 0])(0.0), type(a[0, 0])(1.0)
    pivots = tg.tile_full(shape=n, value=one)
    for k in range(n):
        column = columns[k, :]
        p = tg._tile_free_pivot(column, free, index)[0]
        row, is_pivot = columns[:, p], index == p
        scale, inverse, inverse_for_done = tg._tile_inverses_of_pivot(row[k])
        factor = column * tg.where(free, inverse, inverse_for_done) * scale
        factor = tg.where(is_pivot, zero, factor)
        replaced = tg.tile_reshape(tg.where(is_pivot, one, -factor), (1, length))
        update = columns - tg.tile_reshape(row, (n, 1)) * tg.tile_reshape(factor, (1, length))
        columns = tg.where(column_index == k, replaced, update)
        free = free & ~is_pivot
        step, order = tg.where(is_pivot, k, step), tg.where(index == k, p, order)
        pivots = tg.where(index[:n] == k, row[k], pivots)
    scales = tg._tile_scale_of_pivot(pivots)
    inverses = one / (pivots * scales)
    rows, result = (
        tg.tile_zeros(shape=(n, n), dtype=type(zero)),
        tg.tile_zeros(shape=(n, n), dtype=type(zero)),
    )
    for i in range(n):
        p = order[i]
        rows[i, :] = columns[:, p] * inverses[i] * scales[i]
    for j in range(n):
        p = step[j]
        result[j, :] = rows[:, p]
    return tg.tile_transpose(result)


@tile_inverse.program(
    when=lambda N, group, Real, partial: fits_lanes(N, group, Real, partial, MATRIX_REGISTERS)
)
def by_one_warp(a):
    if tg._on_gpu():
        return tg._tile_inverse_in_lanes(a)
    else:
        return tg._tile_inverse_in_place(a)


@tile_inverse.program(when=lambda N, group, Real: N <= WARP // 2 and fits_warp(N, group, Real))
def by_part_of_warp(a):
    """Smaller matrices share warps, with a row in each lane."""
    return tg._tile_inverse_in_place(a)


@cooperative
def _tile_inverse_in_place(a: Tile[Real, N, N]) -> Tile[Real, N, N]:
    """Gauss-Jordan elimination in place. Each step subtracts multiples of the pivot row from all other rows, also from
    those that were pivot rows, and replaces the column of the step, which would be a column of the identity, by a
    column of the inverse. Pivot rows are multiplied by the inverses of their pivots at the end, when rows and columns
    move to their places: `order` holds the pivot row of each step, `step` the step in which each row was the pivot
    row."""
    n = a.shape[0]
    index = tg.tile_arange(n, dtype=int)
    columns = tg.tile_reshape(index, (1, n))
    step, order, free = index, index, index >= 0
    zero, one = type(a[0, 0])(0.0), type(a[0, 0])(1.0)
    pivots = tg.tile_full(shape=n, value=one)
    for k in range(n):
        column = a[:, k]
        p = tg._tile_free_pivot(column, free, index)[0]
        row, is_pivot = a[p, :], index == p
        pivot = row[k]
        scale, inverse, inverse_for_done = tg._tile_inverses_of_pivot(pivot)
        factor = column * tg.where(free, inverse, inverse_for_done) * scale
        factor = tg.where(is_pivot, zero, factor)
        replaced = tg.tile_reshape(tg.where(is_pivot, one, -factor), (n, 1))
        a = tg.where(
            columns == k, replaced, a - tg.tile_reshape(factor, (n, 1)) * tg.tile_reshape(row, (1, n))
        )
        free = free & ~is_pivot
        step, order = tg.where(is_pivot, k, step), tg.where(index == k, p, order)
        pivots = tg.where(is_pivot, pivot, pivots)
    scales = tg._tile_scale_of_pivot(pivots)
    inverses = one / (pivots * scales)
    x = a * tg.tile_reshape(inverses, (n, 1)) * tg.tile_reshape(scales, (n, 1))
    return tg.tile_transpose(tg.tile_transpose(x[order])[step])


@cooperative
def _tile_inverse_in_lanes(a: Tile[Real, N, N]) -> Tile[Real, N, N]:
    """As `_tile_inverse_in_place`, with rows i, i + 32, .. in lane i. In each step rows move by one register, so that
    the column of the step is in the first register, and the column that replaces it becomes the last: all steps share
    their code, and after the last step columns are in order again. Lanes beyond the matrix hold rows of zeros that are
    never free."""
    n, lane = a.shape[0], tg.group_lane()
    slots = tg.static(-(-n // WARP))
    row = tg.tile_local(a, (WARP, 1))
    zero, one = type(row[0, 0])(0.0), type(row[0, 0])(1.0)
    place, free, step_of_row, row_of_step = (
        tg.vector(lane, length=slots),
        tg.vector(lane, length=slots),
        tg.vector(lane, length=slots),
        tg.vector(lane, length=slots),
    )
    factor, own_pivot = tg.vector(zero, length=slots), tg.vector(one, length=slots)
    for s in tg.unrolled(slots):
        place[s] = step_of_row[s] = lane + s * WARP
        free[s] = tg.where(place[s] < n, 1, 0)
    place_of_pivot, pivot = tg._tile_pivot_of_rows(row, free, place)
    for k in tg._rolled(n):
        p = place_of_pivot & (PLACES - 1)
        scale, inverse, inverse_for_done = tg._tile_inverses_of_pivot(pivot)
        for s in tg.unrolled(slots):
            is_pivot = lane + s * WARP == p
            quotient = row[s, 0] * tg.where(free[s] == 1, inverse, inverse_for_done) * scale
            factor[s] = tg.where(is_pivot, zero, quotient)
            free[s] = tg.where(is_pivot, 0, free[s])
            step_of_row[s] = tg.where(is_pivot, k, step_of_row[s])
            row_of_step[s] = tg.where(lane + s * WARP == k, p, row_of_step[s])
            own_pivot[s] = tg.where(is_pivot, pivot, own_pivot[s])
        for owner in tg.static(range(slots)):
            if tg.static(slots == 1) or p // WARP == owner:
                for c in tg.unrolled(n - 1):
                    element = tg.lane_shuffle(row[owner, c + 1], p & (WARP - 1))
                    for s in tg.unrolled(slots):
                        row[s, c] = row[s, c + 1] - factor[s] * element
        for s in tg.unrolled(slots):
            row[s, n - 1] = tg.where(lane + s * WARP == p, one, -factor[s])
        place_of_pivot, pivot = tg._tile_pivot_of_rows(row, free, place)
    # Rows of an odd number of elements, so that lanes write to different banks.
    x = tg.tile_empty(shape=(slots * WARP, tg.static(n + 1 - n % 2)), dtype=type(zero), storage="shared")
    for s in tg.unrolled(slots):
        scale = tg._tile_scale_of_pivot(own_pivot[s])
        inverse = one / (own_pivot[s] * scale)
        for c in tg.unrolled(n):
            column = tg.lane_shuffle(row_of_step[c // WARP], c % WARP)
            x[step_of_row[s], column] = row[s, c] * inverse * scale
    return x[:n, :n]


@part
def _tile_inverses_of_pivot(pivot):
    """The scale and the inverse of `_tile_inverse_of_pivot`, and the inverse for rows that were pivot rows. If all
    candidates for a pivot are 0, rows that are free do not change, and the others become infinite or NaN."""
    scale, inverse = tg._tile_inverse_of_pivot(pivot)
    infinite = tg.copysign(type(pivot)(inf), pivot)
    return scale, inverse, tg.where(pivot == type(pivot)(0.0), infinite, inverse)


@tile_inverse.vjp(keep="result")
def adjoint(result, grad):
    transposed = tg.tile_transpose(result)
    return -(transposed @ grad @ transposed)


@tile_inverse.reference
def reference(a):
    return np.linalg.inv(a)


@tile_inverse.samples
def samples(rng: np.random.Generator) -> Iterator[Sample]:
    for n in (1, 2, 3, 16):
        yield Sample(well_pivoted(rng, n, n).astype(np.float32), tolerance=1024, differentiable=n == 3)
    yield Sample(well_pivoted(rng, 2, 2, 4, 4), tolerance=1024, differentiable=True)
    yield Sample(well_pivoted(rng, 40, 40).astype(np.float32), tolerance=1e6)
    yield Sample(np.array([[2, 0], [0, 4]], np.float16))
    yield Refused(np.ones((3, 4), np.float32), code="type-mismatch", says=("(3, 4)", "N is 3 and 4"))
    yield Refused(np.ones((3, 3), np.int32), code="type-mismatch", says=("int32",))
