"""The index of the largest element of a tile."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tegula.declaration import Refused, Sample, cooperative, part
from tegula.signature import Extents, Tile
from tegula.stdlib.registry import tg
from tegula.stdlib.tiles.argmin import Scalar, first, lines
from tegula.types import float32, float64, int32, int64, uint32, uint64

S, ONE = Extents("S"), 1


@cooperative
def tile_argmax(a: Tile[Scalar, *S]) -> Tile[int32, ONE]:
    """The row-major index of the largest element of a tile; the lowest of equal ones.

    As in tg.max, a NaN loses to any number, and -0.0 is below 0.0; of NaNs alone the index is 0. Elements of absent
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
    return tg._tile_place_of_least(tg._tile_reversed_bits(a))


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
def reference(a):
    return np.array([first(a, least=False)], np.int32)


@tile_argmax.samples
def samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield from map(Sample, lines(rng))
    yield Refused(2, code="type-mismatch", says=("'a' must be a tile[Scalar, *S], got int32",))
