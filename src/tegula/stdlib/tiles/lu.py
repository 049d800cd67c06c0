"""The LU decomposition of a square matrix with partial pivoting."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, nan

import numpy as np

from tegula.declaration import Refused, Sample, cooperative, part
from tegula.signature import Extent, Real, Tile, constexpr
from tegula.stdlib.registry import tg
from tegula.stdlib.tiles.warps import MATRIX_REGISTERS, PLACES, WARP, fits_lanes, fits_warp
from tegula.types import bool_, float32, float64, int32, uint32, uint64

N, M, ONE = Extent("N"), Extent("M"), 1

SMALL, SCALE = 2.0**-60, 2.0**64
"""Pivots below SMALL, whose inverses may overflow, and their columns are multiplied by SCALE."""


def steps_of(n: int) -> int:
    """The number of steps of an elimination that share their code, which also computes registers of the columns that
    these steps finish. Fewer steps take more code, but less to run as long as the code fits the instruction cache."""
    return -(-n // 4) if n <= WARP else -(-n // -(-n // 16))


def is_padded(n: int) -> bool:
    """Whether rows of n elements, of which programs of one thread read columns, are one element longer. With a block in
    each SIMD lane an element has 64 bytes, so that a column of rows of 32 or 64 elements would be in few sets of the
    first cache."""
    return n >= 32 and n % 16 == 0


@cooperative
def tile_lu(a: Tile[Real, ..., N, N]) -> tuple[Tile[Real, ..., N, N], Tile[int32, ..., N]]:
    """The LU decomposition of square matrices with partial pivoting: P @ a = L @ U.

    Parameters:
        a: a tile (..., N, N) of floats; float16 and bfloat16 are computed in float32.
    Returns:
        lu, a tile of the shape and dtype of `a` with U in the upper triangle and L, whose diagonal is 1, below it; and
        piv, a tile (..., N) of int32: step k, from 0 on, exchanged rows k and piv[k], as in scipy.linalg.lu_factor. The
        pivot is the first element of the largest magnitude; NaNs are preferred to numbers. If all candidates are 0, the
        diagonal is 0.
    Raises:
        type-mismatch: `a` is not a tile of square matrices of floats.
    Gradient:
        with G the adjoint of lu: P.T @ inv(L).T @ (the strictly lower triangle of L.T @ tril(G) + the upper triangle of
        triu(G) @ U.T) @ inv(U).T; piv has no gradient.
    Source:
        LAPACK getrf.
    """
    n = a.shape[0]
    index = tg.tile_arange(n, dtype=int)
    rows, columns = tg.tile_reshape(index, (n, 1)), tg.tile_reshape(index, (1, n))
    piv = index
    for k in range(n):
        p = tg._tile_pivot(a[:, k], k)[0]
        row_k, row = a[k, :], a[p, :]
        pivot = row[k]
        a = tg.where(
            rows == k, tg.tile_reshape(row, (1, n)), tg.where(rows == p, tg.tile_reshape(row_k, (1, n)), a)
        )
        factor = a[:, k] / tg.where(pivot == 0.0, type(pivot)(1.0), pivot)
        below = tg.tile_reshape(factor, (n, 1))
        a = tg.where(
            (columns > k) & (rows > k),
            a - below * tg.tile_reshape(row, (1, n)),
            tg.where((columns == k) & (rows > k), below, a),
        )
        piv = tg.where(index == k, p, piv)
    return a, piv


@tile_lu.program(when=lambda group: group == 1)
def by_one_thread(a):
    return tg._tile_eliminate(tg.tile_transpose(a), True)


@cooperative
def _tile_eliminate(
    columns: Tile[Real, M, N], exchanges: constexpr[bool]
) -> tuple[Tile[Real, N, M], Tile[int32, N]]:
    """Gaussian elimination by one thread, without exchanges of rows: step k selects a pivot row among the free rows and
    subtracts multiples of the pivot row from the other free rows. Returns the pivot rows, whose elements on the left of
    the diagonal are those multiples, and the exchanges that have the same result. The columns of the matrix, of which
    there may be more than rows, are the rows of `columns`, so that a step skips the columns before k. `exchanges`:
    whether among equal magnitudes that in the first place after the exchanges is the pivot, and whether exchanges are
    returned."""
    m, n = columns.shape
    length = tg.static(n + is_padded(n))
    if tg.static(is_padded(n)):
        padding = tg.tile_zeros(shape=(m, length - n), dtype=type(columns[0, 0]))
        columns = tg.tile_concat((columns, padding), axis=1)
    index, zero = tg.tile_arange(length, dtype=int), type(columns[0, 0])(0.0)
    column_index = tg.tile_reshape(tg.tile_arange(m, dtype=int), (m, 1))
    position, piv, free = index, index[:n], index < n
    pivot_rows = tg.tile_zeros(shape=(n, m), dtype=type(zero))
    for k in range(n):
        column = columns[k, :]
        p, pivot_position = tg._tile_free_pivot(column, free, position)
        row = columns[:, p]
        pivot_rows[k, :] = row
        free = free & (index != p)
        scale, inverse = tg._tile_inverse_of_pivot(row[k])
        factor = column * scale * inverse
        update = columns - tg.tile_reshape(row, (m, 1)) * tg.tile_reshape(
            tg.where(free, factor, zero), (1, length)
        )
        if exchanges:
            final = tg.tile_reshape(tg.where(free, factor, column), (1, length))
            columns = tg.where(column_index > k, update, tg.where(column_index == k, final, columns))
            position = tg.where(index == p, k, tg.where(position == k, pivot_position, position))
            piv = tg.where(index[:n] == k, pivot_position, piv)
        else:
            columns = tg.where(column_index > k, update, columns)
    return pivot_rows, piv


@tile_lu.program(
    when=lambda N, group, Real, partial: fits_lanes(N, group, Real, partial, MATRIX_REGISTERS),
)
def in_lanes(a):
    if tg._on_gpu():
        return tg._tile_lu_in_lanes(a)
    else:
        return tg._tile_lu_without_exchanges(a, True)


@tile_lu.program(when=lambda N, group, Real: N <= WARP and fits_warp(N, group, Real))
def by_one_warp(a):
    return tg._tile_lu_without_exchanges(a, False)


@cooperative
def _tile_lu_in_lanes(a: Tile[Real, N, N]) -> tuple[Tile[Real, N, N], Tile[int32, N]]:
    """As `_tile_lu_without_exchanges`, with rows i, i + 32, .. in lane i, and several steps that share their code (see
    steps_of): in each step rows move by one register, so that the column of the step is in the first register, and the
    finished column moves to shared memory. The pivot of the next step is found at the end of a step, because it depends
    on one column of those that the step computes. Lanes beyond the matrix hold rows of zeros that are never free, so
    that all sizes have the same steps."""
    n, lane = a.shape[0], tg.group_lane()
    slots = tg.static(-(-n // WARP))
    row = tg.tile_local(a, (WARP, 1))
    zero = type(row[0, 0])(0.0)
    # Rows of an odd number of elements, so that lanes write to different banks.
    factors = tg.tile_empty(
        shape=(slots * WARP, tg.static(n + 1 - n % 2)), dtype=type(zero), storage="shared"
    )
    order = tg.tile_empty(shape=(slots * WARP,), dtype=int, storage="shared")
    position, place, free, piv = (
        tg.vector(lane, length=slots),
        tg.vector(lane, length=slots),
        tg.vector(lane, length=slots),
        tg.vector(lane, length=slots),
    )
    factor = tg.vector(zero, length=slots)
    for s in tg.unrolled(slots):
        position[s], free[s] = lane + s * WARP, tg.where(lane + s * WARP < n, 1, 0)
        place[s] = position[s] * PLACES + (lane + s * WARP)
    packed_pivot, pivot = tg._tile_pivot_of_rows(row, free, place)
    steps = tg.static(steps_of(n))
    for phase in tg.unrolled(tg.static(-(-n // steps))):
        first = phase * steps
        for step in tg._rolled(tg.min(steps, n - first)):
            k = first + step
            p, pivot_position = (
                packed_pivot & (PLACES - 1),
                packed_pivot >> tg.static(PLACES.bit_length() - 1),
            )
            scale, inverse = tg._tile_inverse_of_pivot(pivot)
            for s in tg.unrolled(slots):
                is_pivot = lane + s * WARP == p
                free[s] = tg.where(is_pivot, 0, free[s])
                factor[s] = row[s, 0] * scale * inverse
                factors[lane + s * WARP, k] = tg.where(free[s] == 1, factor[s], row[s, 0])
                position[s] = tg.where(is_pivot, k, tg.where(position[s] == k, pivot_position, position[s]))
                place[s] = position[s] * PLACES + (lane + s * WARP)
                piv[s] = tg.where(lane + s * WARP == k, pivot_position, piv[s])
            for owner in tg.static(range(slots)):
                if tg.static(slots == 1) or p // WARP == owner:
                    for c in tg.unrolled(n - 1):
                        if c < n - 1 - first:
                            element = tg.lane_shuffle(row[owner, c + 1], p % WARP)
                            for s in tg.unrolled(slots):
                                update = row[s, c + 1] - factor[s] * element
                                row[s, c] = tg.where(free[s] == 1, update, row[s, c + 1])
            packed_pivot, pivot = tg._tile_pivot_of_rows(row, free, place)
    for s in tg.unrolled(slots):
        order[position[s]] = lane + s * WARP
    rows = tg.tile_local(tg.tile_zeros(shape=(n, slots * WARP), dtype=type(zero)), (1, WARP))
    for k in tg.unrolled(n):
        p = order[k]
        for s in tg.unrolled(slots):
            rows[k, s] = factors[p, tg.min(lane + s * WARP, n - 1)]
    result = tg.tile_from_local(rows, (1, WARP), (n, slots * WARP))
    return result[:, :n], tg.tile_from_local(piv, (WARP,), (n,))


@cooperative
def _tile_lu_without_exchanges(
    a: Tile[Real, N, N], inverts_pivots: constexpr[bool]
) -> tuple[Tile[Real, N, N], Tile[int32, N]]:
    """Rows stay in their lanes: `position` holds the current position of each row in the permuted matrix, `order` the
    row at each final position, and `free` whether a row has not been a pivot row. `inverts_pivots`: whether a column is
    multiplied by the inverse of the pivot, instead of divided."""
    n = a.shape[0]
    index = tg.tile_arange(n, dtype=int)
    columns = tg.tile_reshape(index, (1, n))
    position, order, piv, free = index, index, index, index >= 0
    for k in range(n):
        column = a[:, k]
        p, pivot_position = tg._tile_free_pivot(column, free, position)
        row = a[p, :]
        pivot = row[k]
        free = free & (index != p)
        if inverts_pivots:
            scale, inverse = tg._tile_inverse_of_pivot(pivot)
            factor = column * scale * inverse
        else:
            factor = column / tg.where(pivot == 0.0, type(pivot)(1.0), pivot)
        below = tg.tile_reshape(factor, (n, 1))
        update = tg.where(
            columns > k, a - below * tg.tile_reshape(row, (1, n)), tg.where(columns == k, below, a)
        )
        a = tg.where(tg.tile_reshape(free, (n, 1)), update, a)
        position = tg.where(index == p, k, tg.where(position == k, pivot_position, position))
        order, piv = tg.where(index == k, p, order), tg.where(index == k, pivot_position, piv)
    return a[order], piv


@part
def _tile_free_pivot(column: Tile[Real, N], free: Tile[bool_, N], position: Tile[int32, N]):
    """The index and the position of the element with the lowest position among the free elements of the largest
    magnitude, of which there must be one. NaNs are preferred to numbers."""
    n = column.shape[0]
    digits = tg.static((n - 1).bit_length())
    bits = tg._tile_magnitude_bits(column)
    magnitude = tg.where(free, bits, type(bits[0])(0))
    packed = (position << digits) + tg.tile_arange(n, dtype=int)
    largest = magnitude == tg.tile_max(magnitude)[0]
    first = tg.tile_min(tg.where(largest, packed, tg.static(1 << 2 * digits)))[0]
    return first & tg.static((1 << digits) - 1), first >> digits


@part
def _tile_first_of_largest(magnitude, place):
    """The lowest place, below PLACES * PLACES, among the largest magnitudes in the vectors of all lanes of a warp. The
    place is the same in all lanes, as it is the result of a reduction of a tile."""
    largest = magnitude[0]
    for s in tg.unrolled(len(magnitude)):
        largest = tg.max(largest, magnitude[s])
    largest = tg.lane_max(largest)
    candidate = tg.vector(tg.static(PLACES * PLACES), length=1)
    for s in tg.unrolled(len(magnitude)):
        candidate[0] = tg.min(candidate[0], tg.where(magnitude[s] == largest, place[s], PLACES * PLACES))
    return tg.tile_min(tg.tile_from_local(candidate, (WARP,), (WARP,)))[0]


@part
def _tile_pivot_of_rows(row, free, place):
    """The lowest place among the free rows with the largest magnitude in the first column, and the row's element of
    this column. `row`: rows i, i + 32, .. in lane i; `free`: 1 for free rows, else 0; `place`: a place of each row,
    whose last digit to the base PLACES is the number of the row."""
    slots = tg.static(row.shape[0])
    none = type(tg._tile_magnitude_bits(row[0, 0]))(0)
    magnitude = tg.vector(none, length=slots)
    for s in tg.unrolled(slots):
        magnitude[s] = tg.where(free[s] == 1, tg._tile_magnitude_bits(row[s, 0]), none)
    packed = tg._tile_first_of_largest(magnitude, place)
    p, pivot = packed & (PLACES - 1), row[0, 0]
    for s in tg.unrolled(slots):
        pivot = tg.where(p >= s * WARP, row[s, 0], pivot)
    return packed, tg.lane_shuffle(pivot, p & (WARP - 1))


@part
def _tile_inverse_of_pivot(pivot: float32):
    """A power of two that scales a pivot, so that the inverse neither overflows nor underflows, and the inverse of the
    scaled pivot; 0 if the pivot is 0 or infinite."""
    size = tg.abs(pivot)
    scale = tg.where(
        size < SMALL, SCALE, tg.where(size > tg.static(1.0 / SMALL), tg.static(1.0 / SCALE), 1.0)
    )
    return scale, tg.where((size == 0.0) | (size == inf), 0.0, tg._reciprocal(pivot * scale))


@part
def _tile_inverse_of_pivot(pivot: float64):
    size, one = tg.abs(pivot), float64(1.0)
    scale = tg.where(size < SMALL, float64(SCALE), tg.where(size > 1.0 / SMALL, float64(1.0 / SCALE), one))
    inverse = one / (pivot * scale)
    return scale, tg.where((size == 0.0) | (size == inf), float64(0.0), inverse)


@part
def _tile_magnitude_bits(x: float32):
    """Magnitudes as positive integers in the same order. NaNs are equal, and above infinity."""
    return tg.min(tg.bitcast(x, uint32) | uint32(1 << 31), uint32(0xFF800001))


@part
def _tile_magnitude_bits(x: float64):
    return tg.min(tg.bitcast(x, uint64) | uint64(1 << 63), uint64(0xFFF0000000000001))


@cooperative
def _tile_pivot(column: Tile[Real, N], start: int32) -> Tile[int32, ONE]:
    """The index of the first element of the largest magnitude from `start` on; NaNs are preferred to numbers."""
    bits = tg._tile_sort_bits(tg.abs(column))
    index = tg.tile_arange(column.shape[0], dtype=int)
    return tg._tile_index_of_min(~tg.where(index >= start, bits, type(bits[0])(0)), None, False)


@cooperative
def _tile_permute_rows(y: Tile[Real, N, M], piv: Tile[int32, N]) -> Tile[Real, N, M]:
    """Applies the row exchanges of `piv` to a matrix."""
    n, m = y.shape
    rows = tg.tile_reshape(tg.tile_arange(n, dtype=int), (n, 1))
    for k in range(n):
        p = piv[k]
        row_k, row_p = tg.tile_reshape(y[k, :], (1, m)), tg.tile_reshape(y[p, :], (1, m))
        y = tg.where(rows == k, row_p, tg.where(rows == p, row_k, y))
    return y


@cooperative
def _tile_unpermute_rows(y: Tile[Real, N, M], piv: Tile[int32, N]) -> Tile[Real, N, M]:
    """Reverts the row exchanges of `piv`."""
    n, m = y.shape
    rows = tg.tile_reshape(tg.tile_arange(n, dtype=int), (n, 1))
    for step in range(n):
        k = n - 1 - step
        p = piv[k]
        row_k, row_p = tg.tile_reshape(y[k, :], (1, m)), tg.tile_reshape(y[p, :], (1, m))
        y = tg.where(rows == k, row_p, tg.where(rows == p, row_k, y))
    return y


@tile_lu.vjp(keep="result")
def adjoint(result, grad):
    lu, piv = result
    grad_lu, _ = grad
    n = lu.shape[0]
    index = tg.tile_arange(n, dtype=int)
    rows, columns = tg.tile_reshape(index, (n, 1)), tg.tile_reshape(index, (1, n))
    lower = tg.where(rows == columns, 1.0, tg.where(rows > columns, lu, 0.0))
    upper = tg.where(rows <= columns, lu, 0.0)
    grad_lower, grad_upper = tg.where(rows > columns, grad_lu, 0.0), tg.where(rows <= columns, grad_lu, 0.0)
    left, right = tg.tile_transpose(lower) @ grad_lower, grad_upper @ tg.tile_transpose(upper)
    middle = tg.where(rows > columns, left, right)
    half = tg.tile_upper_solve(tg.tile_transpose(lower), middle)
    permuted = tg.tile_transpose(tg.tile_upper_solve(upper, tg.tile_transpose(half)))
    return tg._tile_unpermute_rows(permuted, piv)


@tile_lu.reference
def reference(a):
    lu, n = np.array(a), a.shape[-1]
    piv = np.zeros(a.shape[:-1], np.int32)
    for matrix, pivots in zip(lu.reshape(-1, n, n), piv.reshape(-1, n), strict=True):
        for k in range(n):
            magnitude = np.abs(matrix[k:, k])
            p = pivots[k] = k + int(np.where(np.isnan(magnitude), np.inf, magnitude).argmax())
            matrix[[k, p]] = matrix[[p, k]]
            if matrix[k, k] != 0:
                matrix[k + 1 :, k] /= matrix[k, k]
            matrix[k + 1 :, k + 1 :] -= np.outer(matrix[k + 1 :, k], matrix[k, k + 1 :])
    return lu, piv


def well_pivoted(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Square matrices with well separated pivots, so that rounding does not change the choice of pivots."""
    *batch, n = shape
    upper = np.triu(rng.uniform(-1, 1, shape), 1) + np.eye(n) * rng.uniform(1, 2, shape)
    lower = np.tril(rng.uniform(-0.7, 0.7, shape), -1) + np.eye(n)
    order = np.argsort(rng.random((*batch[:-1], n)), axis=-1)
    return np.take_along_axis(lower @ upper, order[..., None], axis=-2)


@tile_lu.samples
def samples(rng: np.random.Generator) -> Iterator[Sample]:
    for n in (1, 2, 5, 16):
        yield Sample(well_pivoted(rng, n, n).astype(np.float32), differentiable=n == 5)
    yield Sample(well_pivoted(rng, 40, 40), tolerance=256)
    yield Sample(well_pivoted(rng, 2, 3, 4, 4), differentiable=True)
    yield Sample(np.array([[2, 1], [4, 1]], np.float16))
    yield Sample(np.array([[0, 1, 2], [0, 3, 4], [0, 6, 9]], np.float32))
    yield Sample(np.zeros((3, 3)))
    yield Sample(np.array([[1, 2, 3], [4, nan, 6], [7, 8, 9]], np.float32))
    yield Refused(np.ones((3, 4), np.float32), code="type-mismatch", says=("(3, 4)", "N is 3 and 4"))
    yield Refused(np.ones((3, 3), np.int32), code="type-mismatch", says=("int32",))


__all__ = ["well_pivoted"]
