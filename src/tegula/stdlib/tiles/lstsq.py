"""Solves overdetermined linear equations in the sense of least squares."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tegula.declaration import Refused, Sample, cooperative
from tegula.signature import Extent, Real, Tile
from tegula.stdlib.registry import tg

M, N, R = Extent("M"), Extent("N"), Extent("R", optional=True)


@cooperative
def tile_lstsq(a: Tile[Real, ..., M, N], y: Tile[Real, ..., M, R]) -> Tile[Real, ..., N, R]:
    """x that minimises the sum of the squares of a @ x - y, by the QR decomposition.

    Parameters:
        a: a tile (..., M, N) of floats with M >= N, of full rank; float16 and bfloat16 are computed in float32.
        y: vectors (..., M), or the columns of (..., M, R), of the dtype and the batch of a.
    Returns:
        vectors (..., N) or a tile (..., N, R) of the dtype of `a`. For a rank-deficient matrix the results of divisions
        by 0 are infinities and NaN, as IEEE 754 says.
    Raises:
        shape-mismatch: the extents of `a` and `y`, or their batches, differ.
        type-mismatch: `a` is not a tile of matrices or has more columns than rows, or the dtypes differ or are not
            floats.
    Gradient:
        with x the result and g = inv(a.T @ a) @ the adjoint: a @ g for `y`, (y - a @ x) @ g.T - a @ g @ x.T for `a`.
    Source:
        LAPACK gels.
    """


@tile_lstsq.program(when=lambda M, N: M >= N)
def lstsq_by_qr(a, y):
    m, n = a.shape
    q, r = tg.tile_qr(a)
    x = tg.tile_upper_solve(r, tg.tile_transpose(q) @ tg.tile_reshape(y, (m, -1)))
    return tg.tile_reshape(x, (n, *y.shape[1:]))


@tile_lstsq.vjp(keep=("a", "y", "result"))
def adjoint(a, y, result, grad):
    m, n = a.shape
    _, r = tg.tile_qr(a)
    y_columns, x = tg.tile_reshape(y, (m, -1)), tg.tile_reshape(result, (n, -1))
    grad_x = tg.tile_reshape(grad, (n, -1))
    g = tg.tile_upper_solve(r, tg.tile_lower_solve(tg.tile_transpose(r), grad_x))
    grad_y = a @ g
    grad_a = (y_columns - a @ x) @ tg.tile_transpose(g) - grad_y @ tg.tile_transpose(x)
    return grad_a, tg.tile_reshape(grad_y, y.shape)


@tile_lstsq.reference
def reference(a, y):
    columns = y if y.ndim == a.ndim else y[..., None]
    x = np.linalg.pinv(a) @ columns
    return x if y.ndim == a.ndim else x[..., 0]


@tile_lstsq.samples
def samples(rng: np.random.Generator) -> Iterator[Sample]:
    for m, n in ((1, 1), (5, 2), (20, 7)):
        a, y = rng.standard_normal((m, n)), rng.standard_normal(m)
        yield Sample(a.astype(np.float32), y.astype(np.float32), tolerance=1024)
    yield Sample(
        rng.standard_normal((5, 3)), rng.standard_normal((5, 2)), tolerance=1024, differentiable=True
    )
    yield Sample(
        rng.standard_normal((2, 4, 2)), rng.standard_normal((2, 4)), tolerance=1024, differentiable=True
    )
    one = np.ones((4, 3), np.float32)
    yield Refused(one, np.ones(3, np.float32), code="shape-mismatch", says=("(4, 3)", "(3,)", "M is 4"))
    yield Refused(one.T, np.ones(3, np.float32), code="type-mismatch", says=("(3, 4)", "M=3, N=4"))
    yield Refused(one, np.ones(4), code="type-mismatch", says=("float64", "float32"))
