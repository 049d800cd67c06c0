"""The median of a tile's elements."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tegula.declaration import Refused, Sample, cooperative
from tegula.signature import Extent, Real, Tile
from tegula.stdlib.registry import tg

N, M = Extent("N"), 1


@cooperative
def tile_median(t: Tile[Real, ..., N]) -> Tile[Real, ..., M]:
    """The median along the last dimension: the middle element, or the mean of the two middle elements.

    Parameters:
        t: a tile (..., N) of floats; float16 and bfloat16 are computed in float32.
    Returns:
        a tile (..., 1) of the same dtype; NaN if an element is NaN.
    Raises:
        type-mismatch: `t` is not a tile of floats.
    Gradient:
        the adjoint for the middle element, or half of the adjoint for each of two middle elements.
    """
    n = t.shape[0]
    keys = tg.tile_reshape(t, (n,))
    tg.tile_sort(keys, keys)
    last = keys[n - 1 : n]
    middle = (keys[(n - 1) // 2 : (n - 1) // 2 + 1] + keys[n // 2 : n // 2 + 1]) / 2.0
    return tg.where(tg.isnan(last), last, middle)


@tile_median.reference
def reference(t):
    return np.median(t, axis=-1, keepdims=True)


@tile_median.samples
def samples(rng: np.random.Generator) -> Iterator[Sample]:
    for n in (1, 4, 15):
        yield Sample(rng.standard_normal(n).astype(np.float32), differentiable=n == 4)
    yield Sample(rng.standard_normal((2, 3, 7)).astype(np.float32))
    yield Sample(np.array([1, np.nan, 2], np.float32))
    yield Refused(np.ones(3, np.int32), code="type-mismatch", says=("int32", "float32"))
