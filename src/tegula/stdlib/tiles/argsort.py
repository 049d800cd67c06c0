"""The indices that sort keys."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, nan

import numpy as np

from tegula.declaration import Refused, Sample, cooperative
from tegula.signature import Extents, Key, Tile, constexpr
from tegula.stdlib.registry import tg
from tegula.stdlib.tiles.sort import sort_indices, split_at_axis
from tegula.types import int32

S = Extents("S")


@cooperative
def tile_argsort(
    keys: Tile[Key, *S], axis: constexpr = -1, descending: constexpr[bool] = False
) -> Tile[int32, *S]:
    """The indices that sort each line of keys along an axis, in ascending order.

    Equal keys stay in order; -0.0 is below 0.0, and NaN above all numbers.

    Parameters:
        keys: a tile of float32, float64, int32, int64, uint32 or uint64.
        axis: the dimension along which lines are sorted, a constant; the last by default, None for all keys as one
            line in row-major order.
        descending: whether the largest key comes first, a constant.
    Returns:
        a tile of int32 of the shape of `keys`: indices along the axis.
    Raises:
        type-mismatch: `keys` has another dtype.
        out-of-range: there is no such axis.
    Gradient:
        none: indices are integers.
    Source:
        Batcher, "Sorting networks and their applications" (1968): the bitonic network; on GPUs a network for each
        digit of the keys, from the lowest digit.
    """
    shape = keys.shape
    before, length, after = tg.static(split_at_axis(shape, axis))
    if tg.static(after > 1):
        columns = tg.tile_permute(tg.tile_reshape(keys, (before, length, after)), (0, 2, 1))
        rows = tg._tile_sort_indices(tg.tile_reshape(columns, (before * after, length)), descending)
        return tg.tile_reshape(
            tg.tile_permute(tg.tile_reshape(rows, (before, after, length)), (0, 2, 1)), shape
        )
    else:
        return tg.tile_reshape(
            tg._tile_sort_indices(tg.tile_reshape(keys, (before, length)), descending), shape
        )


@tile_argsort.reference
def reference(keys, axis=-1, descending=False):
    if axis is None:
        return sort_indices(keys.ravel(), 0, descending).astype(np.int32).reshape(keys.shape)
    return sort_indices(keys, axis, descending).astype(np.int32)


@tile_argsort.samples
def samples(rng: np.random.Generator) -> Iterator[Sample]:
    for n in (1, 2, 17):
        yield Sample(rng.standard_normal(n).astype(np.float32))
    special_keys = np.array([0.0, nan, -0.0, inf, 2, -inf, -0.0, nan, 2, 0.0])
    yield Sample(special_keys)
    yield Sample(special_keys.astype(np.float32), descending=True)
    repeated_keys = rng.integers(0, 4, (3, 5, 2))
    yield Sample(repeated_keys)
    yield Sample(repeated_keys, 1, descending=True)
    yield Sample(repeated_keys.astype(np.uint32), None)
    yield Refused(
        repeated_keys, 3, code="out-of-range", says=("3 is not an axis of a tile of shape (3, 5, 2)",)
    )
    yield Refused(np.ones(3, np.int8), code="type-mismatch", says=("float32, float64, int32", "int8"))
