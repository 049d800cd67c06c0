"""Running sums under NumPy's name."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tegula.declaration import Refused, Sample, cooperative
from tegula.signature import Tile, constexpr
from tegula.stdlib.registry import tg
from tegula.stdlib.tiles.scan import Number, S


@cooperative
def tile_cumsum(a: Tile[Number, *S], axis: constexpr = None) -> Tile[Number, *S]:
    """The running sums of the elements, in row-major order or along a dimension, as tg.tile_scan_inclusive.

    Parameters:
        a: a tile of any dtype but bool. Vectors are summed by component.
        axis: the dimension of the scan, a constant from -rank to rank - 1; None for all elements in row-major order.
    Returns:
        a tile of the shape and dtype of `a`.
    Raises:
        type-mismatch: `a` is not a tile of such a dtype.
        out-of-range: there is no such axis.
    Gradient:
        the running sum of the adjoint from the last element to the first.
    """
    return tg.tile_scan_inclusive(a, axis)


@tile_cumsum.reference
def reference(a, axis=None):
    return np.cumsum(a, axis).reshape(a.shape)


@tile_cumsum.samples
def samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(rng.integers(-4, 5, (3, 5)).astype(np.float32), tolerance=0)
    yield Sample(rng.standard_normal((2, 3)), 0, differentiable=True)
    yield Refused(np.ones((2, 3)), 2, code="out-of-range", says=("2 is not an axis",))
