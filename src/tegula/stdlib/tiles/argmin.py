"""The index of the smallest element of a tile."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, nan

import numpy as np

from tegula.declaration import Refused, Sample, cooperative
from tegula.signature import Dtypes, Element, Extents, Tile
from tegula.stdlib.registry import tg
from tegula.stdlib.tiles.sort import Bits
from tegula.types import DTYPES, float32, int32, uint32, uint64

S, ONE = Extents("S"), 1
Scalar = Dtypes(
    "Scalar",
    *DTYPES.values(),
    computed={
        t: float32 if t.is_float else int32 if t.is_signed else uint32 for t in DTYPES.values() if t.bits < 32
    },
)


@cooperative
def tile_argmin(a: Tile[Scalar, *S]) -> Tile[int32, ONE]:
    """The row-major index of the smallest element of a tile; the lowest of equal ones.

    As in tg.min, a NaN loses to any number, and -0.0 is below 0.0; of NaNs alone the index is 0. Elements of absent
    threads are skipped.

    Parameters:
        a: a tile of scalars of any dtype, of any shape.
    Returns:
        a tile (1,) of int32.
    Raises:
        type-mismatch: `a` is no tile of scalars.
    Gradient:
        refused (no-gradient), of floats: an index has none.
    """
    return tg._tile_place_of_least(tg._tile_sort_bits(a))


@cooperative
def _tile_place_of_least(bits: Tile[Bits, *S]) -> Tile[int32, ONE]:
    """The row-major index of the first of the smallest elements of a tile."""


@_tile_place_of_least.program(when=lambda Bits: Bits == uint32)
def of_short_keys(bits):
    """For 32-bit keys: the minimum of 64-bit integers with the key in the upper and the index in the lower half."""
    pairs = (tg.tile_astype(bits, uint64) << uint64(32)) | tg.tile_astype(tg._tile_places(bits), uint64)
    return tg.tile_astype(tg.tile_min(pairs) & uint64(0xFFFFFFFF), int)


@_tile_place_of_least.program
def of_long_keys(bits):
    """For 64-bit keys: bit 31 says whether the key is above the least key, the bits below hold the index; the minimum
    of these integers is the index."""
    more = tg.tile_astype(tg.min(bits - tg.tile_min(bits), uint64(1)), uint32)
    return tg.tile_astype(tg.tile_min((more << uint32(31)) | tg._tile_places(bits)), int)


@cooperative
def _tile_places(t: Tile[Element, *S]) -> Tile[uint32, *S]:
    """The row-major index of each element."""
    size = tg.static(1)
    shape = t.shape
    for n in shape:
        size = size * n
    return tg.tile_reshape(tg.tile_arange(size, dtype=uint32), shape)


@tile_argmin.reference
def reference(a):
    return np.array([first(a, least=True)], np.int32)


def first(a: np.ndarray, least: bool) -> int:
    """The row-major index of the first extreme element: numbers are preferred to NaN, and -0.0 is below 0.0."""
    line = a.ravel()
    if line.dtype.kind != "f":
        return int(line.argmin() if least else line.argmax())
    sign = 1 if least else -1
    order = np.lexsort((np.where(np.signbit(line), -sign, sign), sign * line))
    return int(order[0])


def lines(rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Tiles of several shapes and dtypes, with equal elements, NaNs, infinities, zeros of both signs and the limits of
    integers."""
    for shape in ((1,), (2,), (33,), (200,), (3, 5), (4, 2, 3)):
        yield rng.standard_normal(shape).astype(np.float32)
    some = np.array([nan, 0.0, -0.0, 0.0, -0.0, nan], np.float32)
    yield some
    yield some.astype(np.float64)
    yield np.array([nan, inf, inf, -inf, -inf, nan], np.float32)
    yield np.full((2, 3), nan)
    yield rng.integers(0, 3, (4, 9)).astype(np.float16)
    yield rng.standard_normal(40)
    for kind in (np.int8, np.uint16, np.int32, np.uint32, np.int64, np.uint64):
        ends = np.iinfo(kind)
        yield np.array([5, ends.max, ends.min, 7, ends.max, ends.min], kind)
    yield np.array([False, True, True, False])


@tile_argmin.samples
def samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield from map(Sample, lines(rng))
    yield Refused(1.0, code="type-mismatch", says=("'a' must be a tile[Scalar, *S]",))


__all__ = ["Scalar", "first", "lines"]
