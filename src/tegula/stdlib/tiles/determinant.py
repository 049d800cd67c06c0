"""The determinant of a square matrix."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tegula.declaration import Refused, Sample, cooperative
from tegula.signature import Extent, Real, Tile
from tegula.stdlib.registry import tg
from tegula.stdlib.tiles.lu import well_pivoted
from tegula.stdlib.tiles.warps import threads_of_matrix

N, ONE = Extent("N"), 1


@cooperative
def tile_determinant(a: Tile[Real, ..., N, N]) -> Tile[Real, ..., ONE]:
    """The determinants of square matrices, by the LU decomposition with partial pivoting.

    Parameters:
        a: a tile (..., N, N) of floats; float16 and bfloat16 are computed in float32.
    Returns:
        a tile (..., 1) of the dtype of `a`; 0 for a singular matrix. `tile_slogdet` covers determinants that overflow
        or underflow.
    Raises:
        type-mismatch: `a` is not a tile of square matrices of floats.
    Gradient:
        the adjoint times the result times inv(a).T, which a singular matrix does not have.
    Source:
        LAPACK getrf.
    """
    n = a.shape[0]
    lu, piv = tg.tile_lu(a)
    result = type(a[0, 0])(1.0)
    for k in range(n):
        result = result * tg.where(piv[k] == k, lu[k, k], -lu[k, k])
    return tg.tile_full(shape=1, value=result)


tile_determinant.threads(threads_of_matrix)


@tile_determinant.vjp(keep=("a", "result"))
def adjoint(a, result, grad):
    return tg.tile_inverse(tg.tile_transpose(a)) * (grad[0] * result[0])


@tile_determinant.reference
def reference(a):
    return np.linalg.det(a)[..., None]


@tile_determinant.samples
def samples(rng: np.random.Generator) -> Iterator[Sample]:
    for n in (1, 2, 5, 16):
        yield Sample(well_pivoted(rng, n, n).astype(np.float32), differentiable=n == 5)
    yield Sample(well_pivoted(rng, 2, 3, 4, 4), differentiable=True)
    yield Sample(np.zeros((3, 3), np.float32), tolerance=0)
    yield Sample(np.array([[1, 2], [2, 4]], np.float16))
    yield Refused(np.ones((3, 4), np.float32), code="type-mismatch", says=("(3, 4)", "N is 3 and 4"))
    yield Refused(np.ones((3, 3), np.int32), code="type-mismatch", says=("int32",))
