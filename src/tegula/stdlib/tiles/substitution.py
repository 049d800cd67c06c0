"""Substitution: the solution of linear equations with a triangular matrix, row after row."""

from __future__ import annotations

from tegula.declaration import cooperative
from tegula.signature import Extent, Real, Tile, constexpr
from tegula.stdlib.registry import tg
from tegula.stdlib.tiles.warps import WARP, fits_columns, fits_lanes, has_few_columns

N, M = Extent("N"), Extent("M")
STEPS = 8
"""The number of rows that are solved before they are subtracted from the others, if a lane has whole columns."""


@cooperative
def _tile_substitute(t: Tile[Real, N, N], z: Tile[Real, N, M], upper: constexpr[bool]) -> Tile[Real, N, M]:
    """x with t @ x = z for a lower triangular matrix, or for an upper one."""
    return tg._tile_substitute_by_division(t, z, upper)


@cooperative
def _tile_substitute_by_division(
    t: Tile[Real, N, N], z: Tile[Real, N, M], upper: constexpr[bool]
) -> Tile[Real, N, M]:
    """Substitution that divides by each pivot."""
    n = t.shape[0]
    rows = tg.tile_reshape(tg.tile_arange(n, dtype=int), (n, 1))
    for step in range(n):
        k = n - 1 - step if upper else step
        row, column = tg.tile_reshape(z[k, :] / t[k, k], (1, -1)), tg.tile_reshape(t[:, k], (n, 1))
        remaining = rows < k if upper else rows > k
        z = tg.where(remaining, z - column * row, tg.where(rows == k, row, z))
    return z


@_tile_substitute.program(
    when=lambda N, M, group, Real, partial: fits_lanes(N, group, Real, partial) and has_few_columns(N, M),
)
def with_inverses(t, z, upper):
    if tg._on_gpu():
        return tg._tile_substitute_in_lanes(t, z, upper)
    else:
        return tg._tile_substitute_with_inverses(t, z, upper)


@_tile_substitute.program(
    when=lambda N, M, group, Real, partial: (
        fits_lanes(N, group, Real, partial) and fits_columns(N, M, Real) and not has_few_columns(N, M)
    ),
)
def by_columns(t, z, upper):
    if tg._on_gpu():
        return tg._tile_substitute_in_columns(t, z, upper)
    else:
        return tg._tile_substitute_by_division(t, z, upper)


@cooperative
def _tile_substitute_in_columns(
    t: Tile[Real, N, N], z: Tile[Real, N, M], upper: constexpr[bool]
) -> Tile[Real, N, M]:
    """As `_tile_substitute_by_division`, with columns j, j + 32, .. of the right-hand side in lane j. All lanes read
    the same element of the matrix. STEPS rows are solved by unrolled steps, and then subtracted from the rows that are
    left in a loop over the solved rows, all of which have the same registers in it."""
    n, columns, lane = t.shape[0], z.shape[1], tg.group_lane()
    slots = tg.static(-(-columns // WARP))
    right = tg.tile_local(z, (1, WARP))
    x = right
    for r in tg.unrolled(n):
        for s in tg.unrolled(slots):
            x[r, s] = right[n - 1 - r if upper else r, s]
    solved = tg.tile_empty(shape=(STEPS, slots * WARP), dtype=type(x[0, 0]), storage="shared")
    for phase in tg.unrolled(tg.static(-(-n // STEPS))):
        first = phase * STEPS
        after = tg.min(first + STEPS, n)
        for step in tg.unrolled(tg.static(min(STEPS, n))):
            k = first + step
            if k < n:
                pivot = t[n - 1 - k if upper else k, n - 1 - k if upper else k]
                for s in tg.unrolled(slots):
                    x[k, s] = x[k, s] / pivot
                    if after < n:
                        solved[step, lane + s * WARP] = x[k, s]
                for c in tg.unrolled(tg.static(min(STEPS, n))):
                    row = first + c
                    if (k < row) & (row < after):
                        factor = t[n - 1 - row if upper else row, n - 1 - k if upper else k]
                        for s in tg.unrolled(slots):
                            x[row, s] = x[row, s] - factor * x[k, s]
        if after < n:
            for step in tg._rolled(STEPS):
                k = first + step
                for row in tg.unrolled(n):
                    if row >= after:
                        factor = t[n - 1 - row if upper else row, n - 1 - k if upper else k]
                        for s in tg.unrolled(slots):
                            x[row, s] = x[row, s] - factor * solved[step, lane + s * WARP]
    for r in tg.unrolled(n):
        for s in tg.unrolled(slots):
            right[n - 1 - r if upper else r, s] = x[r, s]
    return tg.tile_from_local(right, (1, WARP), (n, columns))


@cooperative
def _tile_substitute_with_inverses(
    t: Tile[Real, N, N], z: Tile[Real, N, M], upper: constexpr[bool]
) -> Tile[Real, N, M]:
    """Substitution with the inverse of each pivot, which is computed once."""
    n = t.shape[0]
    index = tg.tile_arange(n, dtype=int)
    rows = tg.tile_reshape(index, (n, 1))
    pivots = tg.tile_reshape(t, (n * n,))[index * (n + 1)]
    scales = tg._tile_scale_of_pivot(pivots)
    inverses = type(t[0, 0])(1.0) / (pivots * scales)
    z = z * tg.tile_reshape(scales, (n, 1))
    for step in range(n):
        k = n - 1 - step if upper else step
        row, column = (
            tg.tile_reshape(z[k, :] * inverses[k], (1, -1)),
            tg.tile_reshape(t[:, k] * scales, (n, 1)),
        )
        z = tg.where(rows < k if upper else rows > k, z - column * row, z)
    return z * tg.tile_reshape(inverses, (n, 1))


@cooperative
def _tile_substitute_in_lanes(
    t: Tile[Real, N, N], z: Tile[Real, N, M], upper: constexpr[bool]
) -> Tile[Real, N, M]:
    """As `_tile_substitute_with_inverses`, with rows i, i + 32, .. in lane i, which computes the inverses of their
    pivots."""
    n, columns, lane = t.shape[0], z.shape[1], tg.group_lane()
    slots = tg.static(-(-n // WARP))
    row, x = tg.tile_local(t, (WARP, 1)), tg.tile_local(z, (WARP, 1))
    one = type(row[0, 0])(1.0)
    scale, inverse = tg.vector(one, length=slots), tg.vector(one, length=slots)
    for s in tg.unrolled(slots):
        pivot = one
        for k in tg.unrolled(n):
            pivot = tg.where(lane + s * WARP == k, row[s, k], pivot)
        scale[s] = tg._tile_scale_of_pivot(pivot)
        inverse[s] = one / (pivot * scale[s])
        for c in tg.unrolled(columns):
            x[s, c] = x[s, c] * scale[s]
    for step in tg.unrolled(n):
        k = n - 1 - step if upper else step
        for c in tg.unrolled(columns):
            solution = tg.lane_shuffle(x[k // WARP, c] * inverse[k // WARP], k % WARP)
            for s in tg.unrolled(slots):
                remains = lane + s * WARP < k if upper else lane + s * WARP > k
                x[s, c] = tg.where(remains, x[s, c] - row[s, k] * scale[s] * solution, x[s, c])
    for s in tg.unrolled(slots):
        for c in tg.unrolled(columns):
            x[s, c] = x[s, c] * inverse[s]
    return tg.tile_from_local(x, (WARP, 1), (n, columns))
