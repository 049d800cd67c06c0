"""The index of the largest element of a tile."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tegula.declaration import Refused, Sample, cooperative, part
from tegula.signature import Extents, Tile, constexpr
from tegula.stdlib.registry import tg
from tegula.stdlib.tiles.argmin import R, Scalar, extreme_indices, sample_tiles, samples_along_axes
from tegula.types import float32, float64, int32, int64, uint32, uint64

S = Extents("S")


@cooperative
def tile_argmax(
    a: Tile[Scalar, *S], axis: constexpr = None, keepdims: constexpr[bool] = False
) -> Tile[int32, *R]:
    """The index of the largest element of a tile, in row-major order or along a dimension; the lowest index among equal
    elements.

    As in tg.max, numbers are preferred to NaNs, and -0.0 is below 0.0; if all elements are NaN the index is 0. Elements
    of absent threads are skipped.

    Parameters:
        a: a tile of scalars of any dtype, of any shape.
        axis: the dimension of the reduction, a constant from -rank to rank - 1; None for all elements in row-major
            order.
        keepdims: whether the result keeps a dimension of length 1, a constant; False by default.
    Returns:
        a tile of int32 without `axis`; (1,) of all elements, or of a tile of one dimension.
    Raises:
        type-mismatch: `a` is not a tile of scalars.
        out-of-range: there is no such axis.
    Gradient:
        refused (no-gradient) for floats: an index has no gradient.
    """
    return tg._tile_index_of_min(tg._tile_reversed_bits(a), axis, keepdims)


@part
def _tile_reversed_bits(x: float32):
    """Numbers as unsigned integers in descending order of the numbers; NaN has the largest integer, as in ascending
    order."""
    return tg._tile_sort_bits(-x)


@part
def _tile_reversed_bits(x: float64):
    return tg._tile_sort_bits(-x)


@part
def _tile_reversed_bits(x: int32):
    return ~tg._tile_sort_bits(x)


@part
def _tile_reversed_bits(x: uint32):
    return ~tg._tile_sort_bits(x)


@part
def _tile_reversed_bits(x: int64):
    return ~tg._tile_sort_bits(x)


@part
def _tile_reversed_bits(x: uint64):
    return ~tg._tile_sort_bits(x)


@tile_argmax.reference
def reference(a, axis=None, keepdims=False):
    return extreme_indices(a, axis, keepdims, minimum=False)


@tile_argmax.samples
def samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield from map(Sample, sample_tiles(rng))
    yield from samples_along_axes(rng)
    yield Refused(2, code="type-mismatch", says=("'a' must be a tile[Scalar, *S], got int32",))
    yield Refused(np.ones((2, 3)), 2, code="out-of-range", says=("axis 2 is out of bounds",))
