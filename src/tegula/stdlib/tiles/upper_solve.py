"""Solves linear equations with an upper triangular matrix."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tegula.declaration import Refused, Sample, cooperative
from tegula.signature import Extent, Real, Tile
from tegula.stdlib.registry import tg
from tegula.stdlib.tiles.lower_solve import solve_reference, triangular_factor
from tegula.stdlib.tiles.warps import threads_of_triangle

N, R = Extent("N"), Extent("R", optional=True)


@cooperative
def tile_upper_solve(u: Tile[Real, ..., N, N], z: Tile[Real, ..., N, R]) -> Tile[Real, ..., N, R]:
    """x with u @ x = z, for upper triangular matrices: backward substitution.

    Parameters:
        u: a tile (..., N, N) of floats, of which only the upper triangle is read; float16 and bfloat16 are computed in
            float32.
        z: vectors (..., N), or the columns of (..., N, R), of the dtype and the batch of u.
    Returns:
        a tile of the shape and dtype of `z`. A 0 on the diagonal divides as IEEE 754 says.
    Raises:
        shape-mismatch: the extents of `u` and `z`, or their batches, differ.
        type-mismatch: `u` is not a tile of square matrices, or the dtypes differ or are not floats.
    Gradient:
        with x the result and b = inv(u).T @ the adjoint: b for `z`, the upper triangle of -b @ x.T for `u`.
    Source:
        BLAS trsm.
    """
    return tg.tile_reshape(tg._tile_substitute(u, tg.tile_reshape(z, (u.shape[0], -1)), True), z.shape)


tile_upper_solve.threads(threads_of_triangle)


@tile_upper_solve.vjp(keep=("u", "result"))
def adjoint(u, result, grad):
    """The adjoint of z is b = inv(u).T @ grad; the adjoint of u is the upper triangle of -b @ x.T."""
    n = u.shape[0]
    index = tg.tile_arange(n, dtype=int)
    rows, columns = tg.tile_reshape(index, (n, 1)), tg.tile_reshape(index, (1, n))
    grad_z = tg.tile_lower_solve(tg.tile_transpose(u), grad)
    product = tg.tile_reshape(grad_z, (n, -1)) @ tg.tile_transpose(tg.tile_reshape(result, (n, -1)))
    return tg.where(rows <= columns, -product, 0.0), grad_z


@tile_upper_solve.reference
def reference(u, z):
    return solve_reference(np.triu(u), z)


@tile_upper_solve.samples
def samples(rng: np.random.Generator) -> Iterator[Sample]:
    for n in (1, 3, 16, 20):
        yield Sample(
            triangular_factor(rng, n, n).T.astype(np.float32), rng.standard_normal(n).astype(np.float32)
        )
    yield Sample(
        np.tril(triangular_factor(rng, 5, 5)).T.copy(), rng.standard_normal((5, 3)), differentiable=True
    )
    yield Sample(np.tril(triangular_factor(rng, 4, 4)).T.copy(), rng.standard_normal(4), differentiable=True)
    one = np.ones((3, 3), np.float32)
    yield Refused(one, np.ones(4, np.float32), code="shape-mismatch", says=("(3, 3)", "(4,)", "N is 3"))
    yield Refused(one, np.ones(3), code="type-mismatch", says=("float64", "float32"))
