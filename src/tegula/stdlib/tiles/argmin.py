"""The index of the smallest element of a tile."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, nan, prod

import numpy as np

from tegula.declaration import Refused, Sample, cooperative
from tegula.signature import Dtypes, Element, Extents, Tile, constexpr
from tegula.stdlib.registry import tg
from tegula.stdlib.tiles.sort import split_at_axis
from tegula.stdlib.tiles.sort_network import Bits
from tegula.types import DTYPES, float32, int32, uint32, uint64

S = Extents("S")
Scalar = Dtypes(
    "Scalar",
    *DTYPES.values(),
    computed={
        t: float32 if t.is_float else int32 if t.is_signed else uint32 for t in DTYPES.values() if t.bits < 32
    },
)


def reduced_shape(S: tuple[int, ...], axis: int | None, keepdims: bool) -> tuple[int, ...]:
    """The shape of a reduction of a tile of shape S."""
    if axis is None:
        return (1,) * len(S) if keepdims else (1,)
    lengths = [1 if d == axis % len(S) else n for d, n in enumerate(S) if keepdims or d != axis % len(S)]
    return tuple(lengths) or (1,)


R = Extents("R", value=reduced_shape)


@cooperative
def tile_argmin(
    a: Tile[Scalar, *S], axis: constexpr = None, keepdims: constexpr[bool] = False
) -> Tile[int32, *R]:
    """The index of the smallest element of a tile, in row-major order or along a dimension; the lowest index among
    equal elements.

    As in tg.min, numbers are preferred to NaNs, and -0.0 is below 0.0; if all elements are NaN the index is 0. Elements
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
    return tg._tile_index_of_min(tg._tile_sort_bits(a), axis, keepdims)


@cooperative
def _tile_index_of_min(bits: Tile[Bits, *S], axis: constexpr, keepdims: constexpr[bool]) -> Tile[int32, *R]:
    """The index of the first of the smallest elements of a tile, or of each line along an axis."""


@_tile_index_of_min.program(when=lambda Bits: Bits == uint32)
def minimum_of_packed_pairs(bits, axis, keepdims):
    """For 32-bit keys: the minimum of 64-bit integers with the key in the upper and the index in the lower half."""
    packed = (tg.tile_astype(bits, uint64) << uint64(32)) | tg.tile_astype(
        tg._tile_indices(bits, axis), uint64
    )
    return tg.tile_astype(tg.tile_min(packed, axis, keepdims) & uint64(0xFFFFFFFF), int)


@_tile_index_of_min.program
def minimum_of_flagged_indices(bits, axis, keepdims):
    """For 64-bit keys: the minimum of 32-bit integers whose bit 31 is set if the key is above the least key, and whose
    lower bits are the index."""
    is_larger = tg.tile_astype(tg.min(bits - tg.tile_min(bits, axis, True), uint64(1)), uint32)
    return tg.tile_astype(
        tg.tile_min((is_larger << uint32(31)) | tg._tile_indices(bits, axis), axis, keepdims), int
    )


@cooperative
def _tile_indices(t: Tile[Element, *S], axis: constexpr) -> Tile[uint32, *S]:
    """The row-major index of each element, or the index of each element along an axis."""
    shape = t.shape
    if tg.static(axis is None):
        return tg.tile_reshape(tg.tile_arange(tg.static(prod(shape)), dtype=uint32), shape)
    else:
        before, n, after = tg.static(split_at_axis(shape, axis))
        line = tg.tile_reshape(tg.tile_arange(n, dtype=uint32), (1, n, 1))
        return tg.tile_reshape(tg.tile_broadcast(line, (before, n, after)), shape)


@tile_argmin.reference
def reference(a, axis=None, keepdims=False):
    return extreme_indices(a, axis, keepdims, minimum=True)


def extreme_indices(a: np.ndarray, axis: int | None, keepdims: bool, minimum: bool) -> np.ndarray:
    """The index of the first extreme of a tile, or of each line along an axis, as tile_argmin defines it."""
    rows = a.reshape(1, -1) if axis is None else np.moveaxis(a, axis, -1).reshape(-1, a.shape[axis])
    indices = np.array([first_extreme(row, minimum) for row in rows], np.int32)
    return indices.reshape(reduced_shape(a.shape, axis, keepdims))


def first_extreme(a: np.ndarray, minimum: bool) -> int:
    """The row-major index of the first extreme element: numbers are preferred to NaN, and -0.0 is below 0.0."""
    line = a.ravel()
    if line.dtype.kind != "f":
        return int(line.argmin() if minimum else line.argmax())
    sign = 1 if minimum else -1
    order = np.lexsort((np.where(np.signbit(line), -sign, sign), sign * line))
    return int(order[0])


def sample_tiles(rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Tiles of several shapes and dtypes, with equal elements, NaNs, infinities, zeros of both signs and the limits of
    integers."""
    for shape in ((1,), (2,), (33,), (200,), (3, 5), (4, 2, 3)):
        yield rng.standard_normal(shape).astype(np.float32)
    special_values = np.array([nan, 0.0, -0.0, 0.0, -0.0, nan], np.float32)
    yield special_values
    yield special_values.astype(np.float64)
    yield np.array([nan, inf, inf, -inf, -inf, nan], np.float32)
    yield np.full((2, 3), nan)
    yield rng.integers(0, 3, (4, 9)).astype(np.float16)
    yield rng.standard_normal(40)
    for dtype in (np.int8, np.uint16, np.int32, np.uint32, np.int64, np.uint64):
        limits = np.iinfo(dtype)
        yield np.array([5, limits.max, limits.min, 7, limits.max, limits.min], dtype)
    yield np.array([False, True, True, False])


def samples_along_axes(rng: np.random.Generator) -> Iterator[Sample]:
    """Tiles and the dimension of the reduction."""
    cube = rng.integers(0, 5, (3, 4, 5)).astype(np.float32)
    for axis, keepdims in ((0, False), (1, True), (-1, False), (None, True)):
        yield Sample(cube, axis, keepdims)
    yield Sample(rng.standard_normal((2, 70)), 1)
    yield Sample(np.array([[nan, 1.0, nan], [nan, -0.0, 0.0]], np.float32), 0)
    yield Sample(rng.integers(0, 9, 33, np.int64), 0)


@tile_argmin.samples
def samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield from map(Sample, sample_tiles(rng))
    yield from samples_along_axes(rng)
    yield Refused(1.0, code="type-mismatch", says=("'a' must be a tile[Scalar, *S]",))
    yield Refused(np.ones((2, 3)), -3, code="out-of-range", says=("axis -3 is out of bounds",))


__all__ = ["R", "Scalar", "extreme_indices", "sample_tiles", "samples_along_axes"]
