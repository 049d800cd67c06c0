"""Sorting keys, and values along with them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tegula.declaration import Refused, Sample, cooperative, part
from tegula.signature import Dtypes, Element, Extent, Extents, InOut, Key, Tile
from tegula.stdlib.registry import tg
from tegula.types import float32, float64, int32, int64, uint32, uint64

N, S = Extent("N"), Extents("S")
Bits = Dtypes("Bits", uint32, uint64)


@cooperative
def tile_sort(keys: InOut[Tile[Key, *S]], values: InOut[Tile[Element, *S]]):
    """Sorts keys in ascending order, in place and in row-major order of their elements, and values along with them.

    Equal keys stay in order; -0.0 comes before 0.0, and NaN after all numbers.

    Parameters:
        keys: a tile of float32, float64, int32, int64, uint32 or uint64.
        values: a tile of the same shape and any dtype; it may be the same tile.
    Raises:
        shape-mismatch: `keys` and `values` have different shapes.
        type-mismatch: `keys` has another dtype, or an operand is no tile bound to a name.
    Gradient:
        the adjoint of each element, for the element where it came from.
    Source:
        Batcher, "Sorting networks and their applications" (1968): the bitonic network.
    """
    flat, along = tg.tile_reshape(keys, (-1,)), tg.tile_reshape(values, (-1,))
    order = tg._tile_sorted_places(tg._tile_sort_bits(flat))
    sorted_keys, sorted_values = flat[order], along[order]
    tg.tile_assign(flat, sorted_keys, 0)
    tg.tile_assign(along, sorted_values, 0)


@part
def _tile_sort_bits(x: float32):
    """Numbers as unsigned integers in the same order, NaN last."""
    bits = tg.bitcast(x, uint32)
    flipped = bits ^ tg.where(bits >= uint32(1 << 31), uint32(0xFFFFFFFF), uint32(1 << 31))
    return tg.where(tg.isnan(x), uint32(0xFFFFFFFF), flipped)


@part
def _tile_sort_bits(x: float64):
    bits = tg.bitcast(x, uint64)
    flipped = bits ^ tg.where(bits >= uint64(1 << 63), uint64(0xFFFFFFFFFFFFFFFF), uint64(1 << 63))
    return tg.where(tg.isnan(x), uint64(0xFFFFFFFFFFFFFFFF), flipped)


@part
def _tile_sort_bits(x: int32):
    return tg.bitcast(x, uint32) ^ uint32(1 << 31)


@part
def _tile_sort_bits(x: uint32):
    return x


@part
def _tile_sort_bits(x: int64):
    return tg.bitcast(x, uint64) ^ uint64(1 << 63)


@part
def _tile_sort_bits(x: uint64):
    return x


@cooperative
def _tile_sorted_places(bits: Tile[Bits, N]) -> Tile[int32, N]:
    """The index in the tile of each element of the sorted tile."""


@_tile_sorted_places.program(when=lambda Bits: Bits == uint32)
def of_short_keys(bits):
    """For 32-bit keys: a bitonic network of 64-bit integers with the key in the upper and the index in the lower half.
    No two integers are equal, which makes the sort stable."""
    n = bits.shape[0]
    m = tg.static(1 << (n - 1).bit_length())
    pairs = tg.tile_full(shape=m, value=uint64(0xFFFFFFFFFFFFFFFF), dtype=uint64)
    places = tg.tile_arange(n, dtype=uint64)
    tg.tile_assign(pairs, (tg.tile_astype(bits, uint64) << uint64(32)) | places, 0)
    lane = tg.tile_arange(m, dtype=int)
    for k in range(tg.static((m - 1).bit_length())):
        for back in range(k + 1):
            apart = 1 << (k - back)
            other = pairs[lane ^ apart]
            least = ((lane & apart) == 0) == ((lane & (2 << k)) == 0)
            pairs = tg.where(least, tg.min(pairs, other), tg.max(pairs, other))
    return tg.tile_astype(pairs[:n] & uint64(0xFFFFFFFF), int)


@_tile_sorted_places.program
def of_long_keys(bits):
    """For 64-bit keys: a bitonic network of keys and indices; equal keys, including those of the padding, are ordered
    by index."""
    n = bits.shape[0]
    m = tg.static(1 << (n - 1).bit_length())
    keys = tg.tile_full(shape=m, value=uint64(0xFFFFFFFFFFFFFFFF), dtype=uint64)
    tg.tile_assign(keys, bits, 0)
    lane = tg.tile_arange(m, dtype=int)
    places = lane
    for k in range(tg.static((m - 1).bit_length())):
        for back in range(k + 1):
            apart = 1 << (k - back)
            key, place = keys[lane ^ apart], places[lane ^ apart]
            least = ((lane & apart) == 0) == ((lane & (2 << k)) == 0)
            before = (keys < key) | ((keys == key) & (places < place))
            stays = before == least
            keys, places = tg.where(stays, keys, key), tg.where(stays, places, place)
    return places[:n]


@tile_sort.reference
def reference(keys, values):
    """A stable NumPy sort with NaN last. NumPy compares -0.0 and 0.0 as equal, so the sign is a second key."""
    flat = keys.ravel()
    by_sign = np.signbit(flat) & (flat == 0) if flat.dtype.kind == "f" else np.zeros(flat.size, bool)
    order = np.lexsort((~by_sign, flat))
    return flat[order].reshape(keys.shape), values.ravel()[order].reshape(values.shape)


@tile_sort.samples
def samples(rng: np.random.Generator) -> Iterator[Sample]:
    for n in (1, 2, 7, 33):
        yield Sample(rng.standard_normal(n).astype(np.float32), rng.integers(0, 99, n, np.int32), tolerance=0)
    some = np.array([0.0, np.nan, -0.0, np.inf, 2, -np.inf, -0.0, -np.nan, 2, 0.0], np.float32)
    yield Sample(some, np.arange(10, dtype=np.float64), tolerance=0)
    yield Sample(some.astype(np.float64), np.arange(10), tolerance=0)
    yield Sample(rng.integers(-3, 3, (3, 5), np.int32), rng.standard_normal((3, 5)).astype(np.float16))
    few = rng.integers(0, 3, 17, np.uint32) << np.uint32(30)
    yield Sample(few, rng.standard_normal(17), tolerance=0, differentiable=True)
    apart = rng.permutation(12).astype(np.float32)
    yield Sample(apart, rng.standard_normal(12).astype(np.float32), tolerance=0)
    ends = np.iinfo(np.int64)
    yield Sample(np.array([ends.max, 0, ends.min, -1, ends.max]), np.arange(5, dtype=np.int8))
    yield Sample(rng.integers(0, 4, (2, 3, 4)).astype(np.uint64), np.arange(24).reshape(2, 3, 4) % 2 == 0)
    three, four = np.ones(3, np.float32), np.ones(4, np.float32)
    yield Refused(three, four, code="shape-mismatch", says=("(3,)", "(4,)", "'keys' and 'values'"))
    yield Refused(three, np.ones((3, 1), np.float32), code="shape-mismatch", says=("(3,)", "(3, 1)"))
    yield Refused(np.ones(3, np.int8), three, code="type-mismatch", says=("float32, float64, int32", "int8"))
