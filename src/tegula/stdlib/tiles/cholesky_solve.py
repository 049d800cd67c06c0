"""Solves linear equations with a symmetric matrix, given its Cholesky factor."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tegula.declaration import Refused, Sample, cooperative
from tegula.signature import Extent, Real, Tile, constexpr
from tegula.stdlib.registry import tg
from tegula.stdlib.tiles.lower_solve import solve_reference, triangular_factor
from tegula.stdlib.tiles.warps import threads_of_rows

N, R = Extent("N"), Extent("R", optional=True)
FillMode = constexpr["lower", "upper"]


@cooperative
def tile_cholesky_solve(
    l: Tile[Real, ..., N, N],  # noqa: E741
    y: Tile[Real, ..., N, R],
    fill_mode: FillMode = "lower",
) -> Tile[Real, ..., N, R]:
    """x with l @ l.T @ x = y, or l.T @ l @ x = y for fill_mode="upper", where l is the result of `tile_cholesky`.

    Parameters:
        l: a tile (..., N, N) of floats, of which only the triangle that fill_mode names is read.
        y: vectors (..., N), or the columns of (..., N, R), of the dtype and the batch of l.
        fill_mode: "lower" or "upper", a constant.
    Returns:
        a tile of the shape and dtype of `y`.
    Raises:
        shape-mismatch: the extents of `l` and `y`, or their batches, differ.
        type-mismatch: `l` is not a tile of square matrices, the dtypes differ or are not floats, or there is no such
            fill_mode.
    Gradient:
        with a = l @ l.T, x the result and b = inv(a) @ the adjoint: b for `y`; for `l` the lower triangle of
        -(b @ x.T + x @ b.T) @ l, transposed for "upper".
    Source:
        LAPACK potrs.
    """


@tile_cholesky_solve.program(when=lambda fill_mode: fill_mode == "lower")
def solve_lower(l, y):  # noqa: E741
    return tg.tile_upper_solve(tg.tile_transpose(l), tg.tile_lower_solve(l, y))


@tile_cholesky_solve.program(when=lambda fill_mode: fill_mode == "upper")
def solve_upper(l, y):  # noqa: E741
    return tg.tile_upper_solve(l, tg.tile_lower_solve(tg.tile_transpose(l), y))


tile_cholesky_solve.threads(threads_of_rows)


@tile_cholesky_solve.reference
def reference(l, y, fill_mode="lower"):  # noqa: E741
    lower = np.tril(l) if fill_mode == "lower" else np.swapaxes(np.triu(l), -1, -2)
    return solve_reference(lower @ np.swapaxes(lower, -1, -2), y)


@tile_cholesky_solve.samples
def samples(rng: np.random.Generator) -> Iterator[Sample]:
    for n in (1, 4, 16):
        yield Sample(
            triangular_factor(rng, n, n).astype(np.float32), rng.standard_normal(n).astype(np.float32)
        )
    yield Sample(triangular_factor(rng, 5, 5).T.copy(), rng.standard_normal((5, 2)), fill_mode="upper")
    yield Sample(np.tril(triangular_factor(rng, 4, 4)), rng.standard_normal((4, 2)), differentiable=True)
    yield Sample(
        np.tril(triangular_factor(rng, 3, 3)).T.copy(), rng.standard_normal(3), "upper", differentiable=True
    )
    one = np.ones((3, 3), np.float32)
    yield Refused(one, np.ones(4, np.float32), code="shape-mismatch", says=("(3, 3)", "(4,)", "N is 3"))
    yield Refused(
        one, np.ones(3, np.float32), "all", code="type-mismatch", says=("'lower' or 'upper', got 'all'",)
    )
