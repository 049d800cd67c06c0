"""Solves linear equations, given the LU decomposition of their matrix."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tegula.declaration import Refused, Sample, cooperative
from tegula.signature import Extent, Real, Tile
from tegula.stdlib.registry import tg
from tegula.stdlib.tiles.lower_solve import solve_reference
from tegula.stdlib.tiles.lu import reference as factored
from tegula.stdlib.tiles.lu import well_pivoted
from tegula.stdlib.tiles.warps import threads_of_rows
from tegula.types import int32

N, R = Extent("N"), Extent("R", optional=True)


@cooperative
def tile_lu_solve(
    lu: Tile[Real, ..., N, N], piv: Tile[int32, ..., N], y: Tile[Real, ..., N, R]
) -> Tile[Real, ..., N, R]:
    """x with a @ x = y, where lu and piv are the results of `tile_lu` for a.

    Parameters:
        lu: a tile (..., N, N) of floats, L below the diagonal and U in the upper triangle.
        piv: a tile (..., N) of int32, the row exchanges.
        y: vectors (..., N), or the columns of (..., N, R), of the dtype and the batch of lu.
    Returns:
        a tile of the shape and dtype of `y`. A 0 on the diagonal divides as IEEE 754 says.
    Raises:
        shape-mismatch: the extents of `lu`, `piv` and `y`, or their batches, differ.
        type-mismatch: `lu` is not a tile of square matrices, the dtypes differ or are not floats, or `piv` is not of
            int32.
    Gradient:
        with x the result and b = inv(a).T @ the adjoint: b for `y`; for `lu` the strictly lower triangle of
        -c @ z.T and the upper triangle of -d @ x.T, with z = U @ x, d = inv(U).T @ the adjoint and c = inv(L).T @ d.
    Source:
        LAPACK getrs.
    """
    n = lu.shape[0]
    index = tg.tile_arange(n, dtype=int)
    rows, columns = tg.tile_reshape(index, (n, 1)), tg.tile_reshape(index, (1, n))
    permuted = tg._tile_permute_rows(tg.tile_reshape(y, (n, -1)), piv)
    z = tg.tile_lower_solve(tg.where(rows == columns, 1.0, lu), permuted)
    return tg.tile_reshape(tg.tile_upper_solve(lu, z), y.shape)


tile_lu_solve.threads(threads_of_rows)


@tile_lu_solve.vjp(keep=("lu", "piv", "result"))
def adjoint(lu, piv, result, grad):
    n = lu.shape[0]
    index = tg.tile_arange(n, dtype=int)
    rows, columns = tg.tile_reshape(index, (n, 1)), tg.tile_reshape(index, (1, n))
    x, grad_x = tg.tile_reshape(result, (n, -1)), tg.tile_reshape(grad, (n, -1))
    upper, transposed = tg.where(rows <= columns, lu, 0.0), tg.tile_transpose(lu)
    grad_upper = tg.tile_lower_solve(transposed, grad_x)
    grad_lower = tg.tile_upper_solve(tg.where(rows == columns, 1.0, transposed), grad_upper)
    below, above = grad_lower @ tg.tile_transpose(upper @ x), grad_upper @ tg.tile_transpose(x)
    grad_y = tg._tile_unpermute_rows(grad_lower, piv)
    return tg.where(rows > columns, -below, -above), tg.tile_reshape(grad_y, grad.shape)


@tile_lu_solve.reference
def reference(lu, piv, y):
    n = lu.shape[-1]
    product = (np.tril(lu, -1) + np.eye(n)) @ np.triu(lu)
    for matrix, permuted in zip(product.reshape(-1, n, n), piv.reshape(-1, n), strict=True):
        for k in range(n - 1, -1, -1):
            matrix[[k, permuted[k]]] = matrix[[permuted[k], k]]
    return solve_reference(product, y)


@tile_lu_solve.samples
def samples(rng: np.random.Generator) -> Iterator[Sample]:
    for n in (1, 3, 16):
        lu, piv = factored(well_pivoted(rng, n, n))
        yield Sample(lu.astype(np.float32), piv, rng.standard_normal(n).astype(np.float32), tolerance=256)
    lu, piv = factored(well_pivoted(rng, 4, 4))
    yield Sample(lu, piv, rng.standard_normal((4, 2)), tolerance=256, differentiable=True)
    lu, piv = factored(well_pivoted(rng, 2, 3, 3))
    yield Sample(lu, piv, rng.standard_normal((2, 3)), tolerance=256, differentiable=True)
    one, order = np.ones((3, 3), np.float32), np.zeros(3, np.int32)
    yield Refused(
        one, order, np.ones(4, np.float32), code="shape-mismatch", says=("(3, 3)", "(4,)", "N is 3")
    )
    yield Refused(one, order[:2], one[0], code="shape-mismatch", says=("(3, 3)", "(2,)", "N is 3"))
    yield Refused(one, one[0], one[0], code="type-mismatch", says=("'piv' must be of int32, got float32",))
