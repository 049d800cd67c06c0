"""Solves linear equations with a lower triangular matrix."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tegula.declaration import Refused, Sample, cooperative
from tegula.signature import Extent, Real, Tile
from tegula.stdlib.registry import tg
from tegula.stdlib.tiles.warps import threads_of_triangle

N, R = Extent("N"), Extent("R", optional=True)


@cooperative
def tile_lower_solve(l: Tile[Real, ..., N, N], y: Tile[Real, ..., N, R]) -> Tile[Real, ..., N, R]:  # noqa: E741
    """z with l @ z = y, for lower triangular matrices: forward substitution.

    Parameters:
        l: a tile (..., N, N) of floats, of which only the lower triangle is read; float16 and bfloat16 are computed in
            float32.
        y: vectors (..., N), or the columns of (..., N, R), of the dtype and the batch of l.
    Returns:
        a tile of the shape and dtype of `y`. A 0 on the diagonal divides as IEEE 754 says.
    Raises:
        shape-mismatch: the extents of `l` and `y`, or their batches, differ.
        type-mismatch: `l` is not a tile of square matrices, or the dtypes differ or are not floats.
    Gradient:
        with z the result and b = inv(l).T @ the adjoint: b for `y`, the lower triangle of -b @ z.T for `l`.
    Source:
        BLAS trsm.
    """
    return tg.tile_reshape(tg._tile_substitute(l, tg.tile_reshape(y, (l.shape[0], -1)), False), y.shape)


tile_lower_solve.threads(threads_of_triangle)


@tile_lower_solve.vjp(keep=("l", "result"))
def adjoint(l, result, grad):  # noqa: E741
    """The adjoint of y is b = inv(l).T @ grad; the adjoint of l is the lower triangle of -b @ z.T."""
    n = l.shape[0]
    index = tg.tile_arange(n, dtype=int)
    rows, columns = tg.tile_reshape(index, (n, 1)), tg.tile_reshape(index, (1, n))
    grad_y = tg.tile_upper_solve(tg.tile_transpose(l), grad)
    product = tg.tile_reshape(grad_y, (n, -1)) @ tg.tile_transpose(tg.tile_reshape(result, (n, -1)))
    return tg.where(rows >= columns, -product, 0.0), grad_y


@tile_lower_solve.reference
def reference(l, y):  # noqa: E741
    return solve_reference(np.tril(l), y)


def solve_reference(matrix: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The NumPy solution; a batch of vectors is passed as matrices with one column."""
    return (
        np.linalg.solve(matrix, y) if y.ndim == matrix.ndim else np.linalg.solve(matrix, y[..., None])[..., 0]
    )


def triangular_factor(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Well-conditioned lower triangular matrices with NaN above the diagonal, where functions must not read."""
    *_, n = shape
    lower = np.tril(rng.standard_normal(shape) / n, -1) + np.eye(n) * rng.uniform(1, 2, shape)
    return lower + np.triu(np.full((n, n), np.nan), 1)


@tile_lower_solve.samples
def samples(rng: np.random.Generator) -> Iterator[Sample]:
    for n in (1, 3, 16, 20):
        yield Sample(
            triangular_factor(rng, n, n).astype(np.float32), rng.standard_normal(n).astype(np.float32)
        )
    yield Sample(np.tril(triangular_factor(rng, 5, 5)), rng.standard_normal((5, 3)), differentiable=True)
    yield Sample(np.tril(triangular_factor(rng, 4, 4)), rng.standard_normal(4), differentiable=True)
    yield Sample(
        np.tril(triangular_factor(rng, 2, 3, 3)), rng.standard_normal((2, 3, 2)), differentiable=True
    )
    yield Sample(triangular_factor(rng, 2, 3, 3), rng.standard_normal((2, 3)))
    one = np.ones((3, 3), np.float32)
    yield Refused(one, np.ones(4, np.float32), code="shape-mismatch", says=("(3, 3)", "(4,)", "N is 3"))
    yield Refused(one, np.ones((4, 3), np.float32), code="shape-mismatch", says=("(3, 3)", "(4, 3)"))
    yield Refused(one, np.ones((2, 3, 3), np.float32), code="shape-mismatch", says=("(2, 3, 3)",))
    yield Refused(one, np.ones(3), code="type-mismatch", says=("float64", "float32"))
