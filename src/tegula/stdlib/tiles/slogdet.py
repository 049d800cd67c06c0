"""The sign and the logarithm of a determinant."""

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
def tile_slogdet(a: Tile[Real, ..., N, N]) -> tuple[Tile[Real, ..., ONE], Tile[Real, ..., ONE]]:
    """The signs of the determinants of square matrices, and the logarithms of their magnitudes.

    Parameters:
        a: a tile (..., N, N) of floats; float16 and bfloat16 are computed in float32.
    Returns:
        two tiles (..., 1) of the dtype of `a`: the sign, 1 or -1, and log(abs(det(a))). For a singular matrix the sign
        is 0 and the logarithm -inf.
    Raises:
        type-mismatch: `a` is not a tile of square matrices of floats.
    Gradient:
        the adjoint of the logarithm times inv(a).T, which a singular matrix does not have.
    Source:
        numpy.linalg.slogdet.
    """
    n = a.shape[0]
    lu, piv = tg.tile_lu(a)
    index, zero, one = tg.tile_arange(n, dtype=int), type(a[0, 0])(0.0), type(a[0, 0])(1.0)
    is_diagonal = tg.tile_reshape(index, (n, 1)) == tg.tile_reshape(index, (1, n))
    diagonal = tg.tile_sum(tg.where(is_diagonal, lu, type(a[0, 0])(0.0)), axis=1)
    changes = tg.tile_sum(tg.where((diagonal < zero) != (piv != index), 1, 0))
    is_singular = tg.tile_min(tg.abs(diagonal)) == zero
    sign = tg.where(is_singular, zero, tg.where(changes % 2 == 1, -one, one))
    return sign, tg.tile_sum(tg.log(tg.abs(diagonal)))


tile_slogdet.threads(threads_of_matrix)


@tile_slogdet.vjp(keep="a")
def adjoint(a, grad):
    _, grad_log = grad
    return tg.tile_inverse(tg.tile_transpose(a)) * grad_log[0]


@tile_slogdet.reference
def reference(a):
    sign, log = np.linalg.slogdet(a)
    return sign[..., None], log[..., None]


@tile_slogdet.samples
def samples(rng: np.random.Generator) -> Iterator[Sample]:
    for n in (1, 2, 5, 16):
        yield Sample(well_pivoted(rng, n, n).astype(np.float32), tolerance=256, differentiable=n == 5)
    yield Sample(well_pivoted(rng, 2, 3, 4, 4), tolerance=256, differentiable=True)
    yield Sample(np.zeros((3, 3), np.float32), tolerance=0)
    yield Sample(np.array([[1, 2], [2, 4]], np.float16), tolerance=0)
    yield Sample(np.eye(40, dtype=np.float32) * np.float32(1e-20))
    yield Refused(np.ones((3, 4), np.float32), code="type-mismatch", says=("(3, 4)", "N is 3 and 4"))
    yield Refused(np.ones((3, 3), np.int32), code="type-mismatch", says=("int32",))
