"""The inverse of a square matrix."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tegula.declaration import Refused, Sample, cooperative
from tegula.signature import Extent, Real, Tile
from tegula.stdlib.registry import tg
from tegula.stdlib.tiles.lu import well_pivoted

N = Extent("N")


@cooperative
def tile_inverse(a: Tile[Real, ..., N, N]) -> Tile[Real, ..., N, N]:
    """The inverses of square matrices, by the LU decomposition with partial pivoting.

    Parameters:
        a: a tile (..., N, N) of floats; float16 and bfloat16 are computed in float32.
    Returns:
        a tile of the shape and dtype of `a`; for a singular matrix infinities and NaN, as IEEE 754 says.
    Raises:
        type-mismatch: `a` is not a tile of square matrices of floats.
    Gradient:
        with x the result: -x.T @ the adjoint @ x.T.
    Source:
        LAPACK getri.
    """
    n = a.shape[0]
    index = tg.tile_arange(n, dtype=int)
    rows, columns = tg.tile_reshape(index, (n, 1)), tg.tile_reshape(index, (1, n))
    return tg.tile_solve(a, tg.where(rows == columns, type(a[0, 0])(1.0), type(a[0, 0])(0.0)))


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
    yield Sample(np.array([[2, 0], [0, 4]], np.float16))
    yield Refused(np.ones((3, 4), np.float32), code="type-mismatch", says=("(3, 4)", "N is 3 and 4"))
    yield Refused(np.ones((3, 3), np.int32), code="type-mismatch", says=("int32",))
