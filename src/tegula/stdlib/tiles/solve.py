"""Solves linear equations with any square matrix."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tegula.declaration import Refused, Sample, cooperative, part
from tegula.signature import Extent, Real, Tile, constexpr
from tegula.stdlib.registry import tg
from tegula.stdlib.tiles.lower_solve import solve_reference
from tegula.stdlib.tiles.lu import SCALE, SMALL, steps_of, well_pivoted
from tegula.stdlib.tiles.warps import (
    PLACES,
    REGISTERS,
    WARP,
    fits_lanes,
    fits_warp,
    has_few_columns,
    threads_of_rows,
)
from tegula.types import DType, int32

N, M, R = Extent("N"), Extent("M"), Extent("R", optional=True)

LOADED = 240
"""The maximum number of registers of a thread into which a matrix and a right-hand side are loaded. A larger matrix is
stored to shared memory before the right-hand side is loaded, and read afterwards."""


def fits_columns(rows: int, columns: int, dtype: DType) -> bool:
    """Whether the lanes of a warp hold the rows of a right-hand side, after those of the matrix."""
    return columns * -(-rows // WARP) * (dtype.bits // 32 or 1) <= REGISTERS


def threads_of_solution(N: int, Real: DType, R: int = 1) -> int:
    """The number of threads of a block that solves linear equations."""
    in_lanes = N > WARP and fits_warp(N, WARP, Real) and fits_columns(N, R, Real)
    return WARP if in_lanes else threads_of_rows(N, Real, R)


@cooperative
def tile_solve(a: Tile[Real, ..., N, N], y: Tile[Real, ..., N, R]) -> Tile[Real, ..., N, R]:
    """x with a @ x = y for square matrices, by the LU decomposition with partial pivoting.

    Parameters:
        a: a tile (..., N, N) of floats; float16 and bfloat16 are computed in float32.
        y: vectors (..., N), or the columns of (..., N, R), of the dtype and the batch of a.
    Returns:
        a tile of the shape and dtype of `y`; for a singular matrix infinities and NaN, as IEEE 754 says.
    Raises:
        shape-mismatch: the extents of `a` and `y`, or their batches, differ.
        type-mismatch: `a` is not a tile of square matrices, or the dtypes differ or are not floats.
    Gradient:
        with x the result and b = inv(a).T @ the adjoint: b for `y`, -b @ x.T for `a`.
    Source:
        LAPACK gesv.
    """
    lu, piv = tg.tile_lu(a)
    return tg.tile_lu_solve(lu, piv, y)


@tile_solve.program(when=lambda group: group == 1)
def by_one_thread(a, y):
    n = a.shape[0]
    columns = tg.tile_concat((tg.tile_transpose(a), tg.tile_transpose(tg.tile_reshape(y, (n, -1)))), axis=0)
    rows, _ = tg._tile_eliminate(columns, False)
    return tg.tile_reshape(tg.tile_upper_solve(rows[:, :n], rows[:, n:]), y.shape)


@tile_solve.program(when=lambda N, group, Real: fits_warp(N, group, Real))
def by_one_warp(a, y):
    n = a.shape[0]
    return tg.tile_reshape(tg._tile_solve_by_rows(a, tg.tile_reshape(y, (n, -1))), y.shape)


@cooperative
def _tile_solve_by_rows(a: Tile[Real, N, N], z: Tile[Real, N, M]) -> Tile[Real, N, M]:
    """The programs of `tile_solve` in a block of one warp."""
    return tg._tile_solve_with_free_rows(a, z, False)


@cooperative
def _tile_solve_with_free_rows(
    a: Tile[Real, N, N], z: Tile[Real, N, M], inverts_pivots: constexpr[bool]
) -> Tile[Real, N, M]:
    """Gaussian elimination without exchanges of rows, which stay in their lanes: `order` holds the pivot row of each
    step, `step` the step in which each row was the pivot row, and `pivots` the pivot of each row.
    `inverts_pivots`: whether a column is multiplied by the inverse of the pivot, instead of divided."""
    n = a.shape[0]
    index = tg.tile_arange(n, dtype=int)
    columns = tg.tile_reshape(index, (1, n))
    step, order, free = index, index, index >= 0
    zero, one = type(a[0, 0])(0.0), type(a[0, 0])(1.0)
    pivots = tg.tile_full(shape=n, value=one)
    for k in range(n):
        column = a[:, k]
        p = tg._tile_free_pivot(column, free, index)[0]
        row, right = a[p, :], z[p, :]
        pivot = row[k]
        free = free & (index != p)
        if inverts_pivots:
            scale, inverse = tg._tile_inverse_of_pivot(pivot)
            quotient = column * scale * inverse
        else:
            quotient = column / tg.where(pivot == zero, one, pivot)
        factor = tg.where(free, quotient, zero)
        below = tg.tile_reshape(factor, (n, 1))
        a = tg.where(columns > k, a - below * tg.tile_reshape(row, (1, n)), a)
        z = z - below * tg.tile_reshape(right, (1, -1))
        step = tg.where(index == p, k, step)
        order = tg.where(index == k, p, order)
        pivots = tg.where(index == p, pivot, pivots)
    scales = tg._tile_scale_of_pivot(pivots)
    return tg._tile_substitute_rows(a, z, order, step, scales, one / (pivots * scales))


@_tile_solve_by_rows.program(
    when=lambda N, M, group, Real: N <= WARP // 2 and fits_warp(N, group, Real) and not has_few_columns(N, M)
)
def in_part_of_warp(a, z):
    """As `_tile_solve_with_free_rows`, where the right-hand side follows the elimination. The steps of a substitution
    have the same registers, so that a loop needs no copies of its body: eliminated columns, which would be other
    registers in each step, are in shared memory. Matrices share a warp, with a row in each lane."""
    n = a.shape[0]
    index = tg.tile_arange(n, dtype=int)
    columns = tg.tile_reshape(index, (1, n))
    step, order, free = index, index, index >= 0
    zero, one = type(a[0, 0])(0.0), type(a[0, 0])(1.0)
    pivots = tg.tile_full(shape=n, value=one)
    for k in range(n):
        column = a[:, k]
        p = tg._tile_free_pivot(column, free, index)[0]
        row = a[p, :]
        pivot = row[k]
        free = free & (index != p)
        quotient = column / tg.where(pivot == zero, one, pivot)
        factor = tg.tile_reshape(tg.where(free, quotient, zero), (n, 1))
        final = tg.tile_reshape(tg.where(free, quotient, column), (n, 1))
        a = tg.where(columns > k, a - factor * tg.tile_reshape(row, (1, n)), tg.where(columns == k, final, a))
        step = tg.where(index == p, k, step)
        order = tg.where(index == k, p, order)
        pivots = tg.where(index == p, pivot, pivots)
    eliminated = tg.tile_empty(shape=(n, n), dtype=type(zero), storage="shared")
    tg.tile_assign(eliminated, tg.tile_transpose(a), (0, 0))
    for k in tg._rolled(n - 1):
        # Unsigned numbers of rows, which do not count from the end.
        factor, right = tg.where(step > k, eliminated[k, :], zero), z[tg.uint32(order[k]), :]
        z = z - tg.tile_reshape(factor, (n, 1)) * tg.tile_reshape(right, (1, -1))
    scales = tg._tile_scale_of_pivot(pivots)
    inverses = one / (pivots * scales)
    z = z * tg.tile_reshape(scales, (n, 1))
    for substituted in tg._rolled(n):
        k = n - 1 - substituted
        p = tg.uint32(order[k])
        row = z[p, :] * inverses[p]
        above = tg.tile_reshape(eliminated[k, :] * scales, (n, 1)) * tg.tile_reshape(row, (1, -1))
        z = tg.where(tg.tile_reshape(step < k, (n, 1)), z - above, z)
    z = z * tg.tile_reshape(inverses, (n, 1))
    return z[order]


@cooperative
def _tile_substitute_rows(
    a: Tile[Real, N, N],
    z: Tile[Real, N, M],
    order: Tile[int32, N],
    step: Tile[int32, N],
    scales: Tile[Real, N],
    inverses: Tile[Real, N],
) -> Tile[Real, N, M]:
    """Back substitution with rows that stay in their lanes, as `_tile_solve_by_rows` eliminates. A row of `z` is final
    after the steps before the row's own, and rows move to their places at the end."""
    n = a.shape[0]
    z = z * tg.tile_reshape(scales, (n, 1))
    for substituted in range(n):
        k = n - 1 - substituted
        p = order[k]
        row = z[p, :] * inverses[p]
        above = tg.tile_reshape(a[:, k] * scales, (n, 1)) * tg.tile_reshape(row, (1, -1))
        z = tg.where(tg.tile_reshape(step < k, (n, 1)), z - above, z)
    z = z * tg.tile_reshape(inverses, (n, 1))
    return z[order]


@_tile_substitute_rows.program(
    when=lambda N, group, Real, partial: N <= WARP and fits_lanes(N, group, Real, partial)
)
def substitute_in_lanes(a, z, order, step, scales, inverses):
    """All steps have the same registers, so that the loop needs no copies of its body: the columns of the matrix, which
    would be other registers in each step, are in shared memory."""
    n, columns, lane = a.shape[0], z.shape[1], tg.group_lane()
    local_a, x = tg.tile_local(a, (WARP, 1)), tg.tile_local(z, (WARP, 1))
    row_of_step, step_of_row = tg.tile_local(order, (WARP,))[0], tg.tile_local(step, (WARP,))[0]
    scale, inverse = tg.tile_local(scales, (WARP,))[0], tg.tile_local(inverses, (WARP,))[0]
    upper = tg.tile_empty(shape=(n, WARP), dtype=type(scale), storage="shared")
    for k in tg.unrolled(n):
        upper[k, lane] = local_a[0, k]
    x = tg._tile_back_substituted(upper, x, scale, inverse, row_of_step, step_of_row)
    return tg.tile_from_local(x, (WARP, 1), (n, columns))


@_tile_solve_by_rows.program(
    when=lambda N, M, group, Real, partial: N <= WARP and fits_lanes(N, group, Real, partial) and M >= N
)
def in_lanes(a, z):
    return tg._tile_solve_in_lanes(a, z, False)


@_tile_solve_by_rows.program(
    when=lambda N, M, group, Real, partial: (
        N <= WARP and fits_lanes(N, group, Real, partial) and has_few_columns(N, M)
    )
)
def few_columns_in_lanes(a, z):
    if tg._on_gpu():
        return tg._tile_solve_in_lanes(a, z, True)
    else:
        return tg._tile_solve_with_free_rows(a, z, True)


@_tile_solve_by_rows.program(
    when=lambda N, M, group, Real, partial: (
        N > WARP and fits_lanes(N, group, Real, partial) and fits_columns(N, M, Real)
    )
)
def columns_in_lanes(a, z):
    if tg._on_gpu():
        return tg._tile_solve_in_loops(a, z)
    else:
        return tg._tile_solve_with_free_rows(a, z, True)


@_tile_solve_by_rows.program(when=lambda N: N > WARP)
def by_factors(a, z):
    lu, piv = tg.tile_lu(a)
    return tg.tile_lu_solve(lu, piv, z)


@cooperative
def _tile_solve_in_loops(a: Tile[Real, N, N], z: Tile[Real, N, M]) -> Tile[Real, N, M]:
    """As `_tile_solve_with_free_rows`, with rows i, i + 32, .. in lane i, for matrices whose unrolled steps would be
    larger than the instruction cache. In each step of the elimination rows move by one register, so that the column of
    the step is in the first register, and several steps share their code (see steps_of). Eliminated columns are in
    shared memory, each in the order of lanes, from where the substitutions read them."""
    n, columns, lane = a.shape[0], z.shape[1], tg.group_lane()
    slots = tg.static(-(-n // WARP))
    chunk, chunks = tg.static(min(columns, WARP)), tg.static(-(-columns // WARP))
    # Rows of an odd number of elements, so that lanes access different banks.
    right = tg.tile_empty(
        shape=(slots * WARP, tg.static(chunk * chunks // 2 * 2 + 1)), dtype=type(a[0, 0]), storage="shared"
    )
    tg.tile_assign(right, z, (0, 0))
    if tg.static(slots * (n + chunk * chunks) <= LOADED):
        row = tg.tile_local(a, (WARP, 1))
    else:
        row = tg.tile_local(tg.tile_zeros(shape=(slots * WARP, n), dtype=type(a[0, 0])), (WARP, 1))
        for s in tg.unrolled(slots):
            for c in tg.unrolled(n):
                row[s, c] = a[tg.min(lane + s * WARP, n - 1), c]
        # As a tile, the rows are read before the memory of eliminated columns is allocated, which can be that of a.
        row = tg.tile_local(tg.tile_from_local(row, (WARP, 1), (slots * WARP, n)), (WARP, 1))
    zero, one = type(row[0, 0])(0.0), type(row[0, 0])(1.0)
    place, free, step_of_row, row_of_step = (
        tg.vector(lane, length=slots),
        tg.vector(lane, length=slots),
        tg.vector(lane, length=slots),
        tg.vector(lane, length=slots),
    )
    factor, pivots = tg.vector(zero, length=slots), tg.vector(one, length=slots)
    for s in tg.unrolled(slots):
        place[s] = step_of_row[s] = lane + s * WARP
        free[s] = tg.where(place[s] < n, 1, 0)
    eliminated = tg.tile_empty(shape=(n, slots * WARP), dtype=type(zero), storage="shared")
    order = tg.tile_empty(shape=(slots * WARP,), dtype=int, storage="shared")
    place_of_pivot, pivot = tg._tile_pivot_of_rows(row, free, place)
    steps = tg.static(steps_of(n))
    for phase in tg.unrolled(tg.static(-(-n // steps))):
        first = phase * steps
        for step in tg._rolled(tg.min(steps, n - first)):
            k, p = first + step, place_of_pivot & (PLACES - 1)
            scale, inverse = tg._tile_inverse_of_pivot(pivot)
            for s in tg.unrolled(slots):
                is_pivot = lane + s * WARP == p
                free[s] = tg.where(is_pivot, 0, free[s])
                quotient = row[s, 0] * scale * inverse
                factor[s] = tg.where(free[s] == 1, quotient, zero)
                eliminated[k, lane + s * WARP] = tg.where(free[s] == 1, quotient, row[s, 0])
                pivots[s] = tg.where(is_pivot, pivot, pivots[s])
                step_of_row[s] = tg.where(is_pivot, k, step_of_row[s])
                row_of_step[s] = tg.where(lane + s * WARP == k, p, row_of_step[s])
            for owner in tg.static(range(slots)):
                if p // WARP == owner:
                    for c in tg.unrolled(n - 1):
                        if c < n - 1 - first:
                            element = tg.lane_shuffle(row[owner, c + 1], p & (WARP - 1))
                            for s in tg.unrolled(slots):
                                row[s, c] = row[s, c + 1] - factor[s] * element
            place_of_pivot, pivot = tg._tile_pivot_of_rows(row, free, place)
    scales, inverses = tg.vector(one, length=slots), tg.vector(one, length=slots)
    for s in tg.unrolled(slots):
        order[lane + s * WARP] = row_of_step[s]
        scales[s] = tg._tile_scale_of_pivot(pivots[s])
        inverses[s] = one / (pivots[s] * scales[s])
    x = tg.tile_local(tg.tile_zeros(shape=(slots * WARP, chunk), dtype=type(zero)), (WARP, 1))
    for number in tg._rolled(chunks):
        for s in tg.unrolled(slots):
            for c in tg.unrolled(chunk):
                x[s, c] = right[lane + s * WARP, number * chunk + c]
        for k in tg._rolled(n - 1):
            p = order[k]
            for s in tg.unrolled(slots):
                factor[s] = tg.where(step_of_row[s] > k, eliminated[k, lane + s * WARP], zero)
            for owner in tg.static(range(slots)):
                if p // WARP == owner:
                    for c in tg.unrolled(chunk):
                        element = tg.lane_shuffle(x[owner, c], p % WARP)
                        for s in tg.unrolled(slots):
                            x[s, c] = x[s, c] - factor[s] * element
        for s in tg.unrolled(slots):
            for c in tg.unrolled(chunk):
                x[s, c] = x[s, c] * scales[s]
        for substituted in tg._rolled(n):
            k = n - 1 - substituted
            p = order[k]
            for s in tg.unrolled(slots):
                factor[s] = eliminated[k, lane + s * WARP] * scales[s]
            for owner in tg.static(range(slots)):
                if p // WARP == owner:
                    inverse = tg.lane_shuffle(inverses[owner], p % WARP)
                    for c in tg.unrolled(chunk):
                        element = tg.lane_shuffle(x[owner, c], p % WARP) * inverse
                        for s in tg.unrolled(slots):
                            x[s, c] = tg.where(step_of_row[s] < k, x[s, c] - factor[s] * element, x[s, c])
        for s in tg.unrolled(slots):
            for c in tg.unrolled(chunk):
                right[step_of_row[s], number * chunk + c] = x[s, c] * inverses[s]
    return right[:n, :columns]


@cooperative
def _tile_solve_in_lanes(
    a: Tile[Real, N, N], z: Tile[Real, N, M], is_eliminated_with_matrix: constexpr[bool]
) -> Tile[Real, N, M]:
    """As `_tile_solve_with_free_rows`, with a row in each lane. Several steps of the elimination share their code (see
    steps_of): in each step rows move by one register, so that the column of the step is in the first register. Steps of
    a substitution have the same registers: eliminated columns, which would be other registers in each step, are in
    shared memory. Lanes beyond the matrix hold rows of zeros that are never free.
    `is_eliminated_with_matrix`: whether a step of the elimination also computes the right-hand side, which else follows
    when the rows of the matrix have left the registers."""
    n, columns, lane = a.shape[0], z.shape[1], tg.group_lane()
    row = tg.tile_local(a, (WARP, 1))
    zero, one = type(row[0, 0])(0.0), type(row[0, 0])(1.0)
    eliminated = tg.tile_empty(shape=(n, WARP), dtype=type(zero), storage="shared")
    step_of_row, row_of_step, own_pivot = lane, lane, one
    place, free = tg.vector(lane, length=1), tg.vector(tg.where(lane < n, 1, 0), length=1)
    if tg.static(is_eliminated_with_matrix):
        x = tg.tile_local(z, (WARP, 1))
    place_of_pivot, pivot = tg._tile_pivot_of_rows(row, free, place)
    # With few right-hand sides there is room for twice as many bodies.
    steps = tg.static(-(-steps_of(n) // 2) if is_eliminated_with_matrix else steps_of(n))
    for phase in tg.unrolled(tg.static(-(-n // steps))):
        first = phase * steps
        for step in tg._rolled(tg.min(steps, n - first)):
            k, p = first + step, place_of_pivot & (PLACES - 1)
            column = row[0, 0]
            is_pivot = lane == p
            free[0] = tg.where(is_pivot, 0, free[0])
            scale, inverse = tg._tile_inverse_of_pivot(pivot)
            quotient = column * scale * inverse
            eliminated[k, lane] = tg.where(free[0] == 1, quotient, column)
            factor = tg.where(free[0] == 1, quotient, zero)
            own_pivot = tg.where(is_pivot, pivot, own_pivot)
            step_of_row, row_of_step = tg.where(is_pivot, k, step_of_row), tg.where(lane == k, p, row_of_step)
            for c in tg.unrolled(n - 1):
                if c < n - 1 - first:
                    row[0, c] = row[0, c + 1] - factor * tg.lane_shuffle(row[0, c + 1], p)
            if tg.static(is_eliminated_with_matrix):
                for c in tg.unrolled(columns):
                    x[0, c] = x[0, c] - factor * tg.lane_shuffle(x[0, c], p)
            place_of_pivot, pivot = tg._tile_pivot_of_rows(row, free, place)
    if tg.static(not is_eliminated_with_matrix):
        x = tg.tile_local(z, (WARP, 1))
        for k in tg._rolled(n - 1):
            p, factor = tg.lane_shuffle(row_of_step, k), eliminated[k, lane]
            for c in tg.unrolled(columns):
                updated = x[0, c] - factor * tg.lane_shuffle(x[0, c], p)
                x[0, c] = tg.where(step_of_row > k, updated, x[0, c])
    scale = tg._tile_scale_of_pivot(own_pivot)
    inverse = one / (own_pivot * scale)
    x = tg._tile_back_substituted(eliminated, x, scale, inverse, row_of_step, step_of_row)
    return tg.tile_from_local(x, (WARP, 1), (n, columns))


@part
def _tile_back_substituted(upper: Tile[Real, N, M], x, scale, inverse, row_of_step, step_of_row):
    """The rows of a right-hand side in lanes after back substitution. `upper`: the columns of the matrix, each in the
    order of lanes; `scale`, `inverse`, `step_of_row`: of the lane's row."""
    n, columns = upper.shape[0], tg.static(x.shape[1])
    for c in tg.unrolled(columns):
        x[0, c] = x[0, c] * scale
    for substituted in tg._rolled(n):
        k = n - 1 - substituted
        p = tg.lane_shuffle(row_of_step, k)
        factor, inverse_of_step = upper[k, tg.group_lane()] * scale, tg.lane_shuffle(inverse, p)
        for c in tg.unrolled(columns):
            solution = tg.lane_shuffle(x[0, c], p) * inverse_of_step
            x[0, c] = tg.where(step_of_row < k, x[0, c] - factor * solution, x[0, c])
    for c in tg.unrolled(columns):
        x[0, c] = tg.lane_shuffle(x[0, c] * inverse, row_of_step)
    return x


@part
def _tile_scale_of_pivot(pivot):
    """A power of two with which the inverse of a pivot does not overflow."""
    return tg.where(tg.abs(pivot) < SMALL, type(pivot)(SCALE), type(pivot)(1.0))


tile_solve.threads(threads_of_solution)


@tile_solve.vjp(keep=("a", "result"))
def adjoint(a, result, grad):
    n = a.shape[0]
    grad_y = tg.tile_solve(tg.tile_transpose(a), grad)
    product = tg.tile_reshape(grad_y, (n, -1)) @ tg.tile_transpose(tg.tile_reshape(result, (n, -1)))
    return -product, grad_y


@tile_solve.reference
def reference(a, y):
    return solve_reference(a, y)


@tile_solve.samples
def samples(rng: np.random.Generator) -> Iterator[Sample]:
    for n in (1, 3, 16):
        yield Sample(
            well_pivoted(rng, n, n).astype(np.float32),
            rng.standard_normal(n).astype(np.float32),
            tolerance=1024,
        )
    yield Sample(well_pivoted(rng, 48, 48), rng.standard_normal((48, 3)), tolerance=1e6)
    yield Sample(well_pivoted(rng, 4, 4), rng.standard_normal((4, 2)), tolerance=1024, differentiable=True)
    yield Sample(well_pivoted(rng, 2, 3, 3), rng.standard_normal((2, 3)), tolerance=1024, differentiable=True)
    one = np.ones((3, 3), np.float32)
    yield Refused(one, np.ones(4, np.float32), code="shape-mismatch", says=("(3, 3)", "(4,)", "N is 3"))
    yield Refused(one[:2], np.ones(3, np.float32), code="type-mismatch", says=("(2, 3)", "N is 2 and 3"))
    yield Refused(one, np.ones(3), code="type-mismatch", says=("float64", "float32"))
