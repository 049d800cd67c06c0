"""The histogram of a tile of integers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tegula.declaration import Refused, Sample, cooperative
from tegula.signature import Dtypes, Extent, Extents, Tile, constexpr
from tegula.stdlib.registry import tg
from tegula.types import int8, int16, int32, int64, uint8, uint16, uint32, uint64

S, BINS = Extents("S"), Extent("bins")
Integer = Dtypes("Integer", int8, int16, int32, int64, uint8, uint16, uint32, uint64)


@cooperative
def tile_histogram(t: Tile[Integer, *S], bins: constexpr[int]) -> Tile[int32, BINS]:
    """The number of occurrences of each integer from 0 to bins - 1 in a tile.

    Parameters:
        t: a tile of integers of any shape. Elements outside 0 to bins - 1 are not counted.
        bins: the number of bins, a positive constant int.
    Returns:
        a tile of int32 of shape (bins,).
    Raises:
        type-mismatch: `t` is not a tile of integers, or `bins` is not an integer.
        out-of-range: `bins` is below 1.
        tile-too-large: `bins` is above 2**26.
    Gradient:
        none: counts are integers.
    """
    flat = tg.tile_reshape(t, (-1,))
    counts = tg.tile_zeros(shape=bins, dtype=int, storage="shared")
    for e in range(tg.group_lane(), flat.shape[0], tg.group_present()):
        x = flat[e]
        if x >= type(x)(0) and tg.uint64(x) < tg.uint64(bins):
            counts[int(x)] += 1
    return counts


@tile_histogram.reference
def reference(t, bins):
    return np.bincount(t[(t >= 0) & (t < bins)].astype(np.int64), minlength=bins).astype(np.int32)


@tile_histogram.samples
def samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(rng.integers(-2, 9, 37, np.int32), 5)
    yield Sample(rng.integers(0, 3, (4, 6), np.uint8), bins=300)
    yield Sample(np.array([[2**63, 1, 0], [1, 2**64 - 1, 2]], np.uint64), 2)
    yield Sample(np.array([0, -(2**63), 3, 2**62]), 4)
    yield Refused(np.ones(3, np.float32), 4, code="type-mismatch", says=("float32", "int32"))
    yield Refused(
        np.ones(3, np.int32), 1.5, code="type-mismatch", says=("'bins' must be of type int, got 1.5",)
    )
    yield Refused(np.ones(3, np.int32), 0, code="out-of-range", says=("(0,)",))
