"""Sorting of key-value pairs."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from tegula.declaration import Refused, Sample, cooperative, part
from tegula.errors import OutOfRange
from tegula.signature import Element, Extents, InOut, Key, Tile, constexpr
from tegula.stdlib.registry import tg
from tegula.types import float32, float64, int32, int64, uint32, uint64

S = Extents("S")


@cooperative
def tile_sort(
    keys: InOut[Tile[Key, *S]],
    values: InOut[Tile[Element, *S]],
    axis: constexpr = None,
    descending: constexpr[bool] = False,
):
    """Sorts key-value pairs by key in ascending order, in place: all pairs in row-major order, or each line along an
    axis.

    Equal keys stay in order; -0.0 is below 0.0, and NaN above all numbers.

    Parameters:
        keys: a tile of float32, float64, int32, int64, uint32 or uint64.
        values: a tile of the same shape and any dtype; `keys` and `values` may be one tile.
        axis: the dimension along which lines are sorted, a constant; None for all keys as one line.
        descending: whether the largest key comes first, a constant.
    Raises:
        shape-mismatch: `keys` and `values` have different shapes.
        type-mismatch: `keys` has another dtype, or an operand is not a tile bound to a name.
        out-of-range: there is no such axis.
    Gradient:
        the adjoints, permuted by the inverse of the sort.
    Source:
        Batcher, "Sorting networks and their applications" (1968): the bitonic network; on GPUs a network for each
        digit of the keys, from the lowest digit.
    """
    flat, flat_values = tg.tile_reshape(keys, (-1,)), tg.tile_reshape(values, (-1,))
    shape = keys.shape
    before, length, after = tg.static(split_at_axis(shape, axis))
    indices = tg.tile_argsort(tg.tile_reshape(keys, (before, length, after)), axis=1, descending=descending)
    if tg.static(before * after > 1):
        line = tg.tile_arange(before * after, dtype=int)
        first = line // after * (length * after) + line % after
        indices = indices * after + tg.tile_reshape(first, (before, 1, after))
    order = tg.tile_reshape(indices, (-1,))
    sorted_keys, sorted_values = flat[order], flat_values[order]
    tg.tile_assign(flat, sorted_keys, 0)
    tg.tile_assign(flat_values, sorted_values, 0)


def split_at_axis(shape: tuple[int, ...], axis: int | None) -> tuple[int, int, int]:
    """The number of elements before, along and after an axis; OutOfRange if there is no such axis. None: the tile is
    one line."""
    if axis is None:
        return 1, math.prod(shape), 1
    if isinstance(axis, bool) or not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
        help = f"the axes are {-len(shape)} to {len(shape) - 1}"
        raise OutOfRange(None, what=f"{axis!r} is not an axis of a tile of shape {shape}", help=help)
    index = axis % len(shape)
    return math.prod(shape[:index]), shape[index], math.prod(shape[index + 1 :])


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


@tile_sort.reference
def reference(keys, values, axis=None, descending=False):
    sort_axis = 0 if axis is None else axis
    flat, sort_values = (keys.ravel(), values.ravel()) if axis is None else (keys, values)
    order = sort_indices(flat, sort_axis, descending)
    sorted_arrays = (np.take_along_axis(x, order, axis=sort_axis) for x in (flat, sort_values))
    return tuple(x.reshape(keys.shape) for x in sorted_arrays)


def sort_indices(keys: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    """The indices of a stable NumPy sort with NaN above all numbers. NumPy compares -0.0 and 0.0 as equal, so the sign
    is a second key."""
    by_sign = np.signbit(keys) & (keys == 0) if keys.dtype.kind == "f" else np.zeros(keys.shape, bool)
    if not descending:
        return np.lexsort((~by_sign, keys), axis=axis)
    # Keys are reversed before and after the sort, so that equal keys stay in order.
    reversed_indices = np.lexsort((~np.flip(by_sign, axis), np.flip(keys, axis)), axis=axis)
    return keys.shape[axis] - 1 - np.flip(reversed_indices, axis)


@tile_sort.samples
def samples(rng: np.random.Generator) -> Iterator[Sample]:
    for n in (1, 2, 7, 33):
        yield Sample(rng.standard_normal(n).astype(np.float32), rng.integers(0, 99, n, np.int32), tolerance=0)
    special_keys = np.array([0.0, np.nan, -0.0, np.inf, 2, -np.inf, -0.0, -np.nan, 2, 0.0], np.float32)
    yield Sample(special_keys, np.arange(10, dtype=np.float64), tolerance=0)
    yield Sample(special_keys.astype(np.float64), np.arange(10), tolerance=0)
    yield Sample(rng.integers(-3, 3, (3, 5), np.int32), rng.standard_normal((3, 5)).astype(np.float16))
    repeated_keys = rng.integers(0, 3, 17, np.uint32) << np.uint32(30)
    yield Sample(repeated_keys, rng.standard_normal(17), tolerance=0, differentiable=True)
    distinct = rng.permutation(12).astype(np.float32)
    yield Sample(distinct, rng.standard_normal(12).astype(np.float32), tolerance=0)
    limits = np.iinfo(np.int64)
    yield Sample(np.array([limits.max, 0, limits.min, -1, limits.max]), np.arange(5, dtype=np.int8))
    yield Sample(rng.integers(0, 4, (2, 3, 4)).astype(np.uint64), np.arange(24).reshape(2, 3, 4) % 2 == 0)
    yield Sample(rng.integers(0, 4, (3, 5), np.int32), np.arange(15).reshape(3, 5), axis=1, tolerance=0)
    yield Sample(special_keys, np.arange(10), descending=True, tolerance=0)
    cube, values = rng.standard_normal((3, 7, 2)).astype(np.float32), rng.standard_normal((3, 7, 2))
    yield Sample(cube, values, -2, descending=True, tolerance=0, differentiable=False)
    rows = rng.integers(0, 4, (2, 9)).astype(np.uint64)
    yield Sample(rows, rng.standard_normal((2, 9)), 1, tolerance=0, differentiable=True)
    yield Refused(cube, cube, 3, code="out-of-range", says=("3 is not an axis of a tile of shape (3, 7, 2)",))
    three, four = np.ones(3, np.float32), np.ones(4, np.float32)
    yield Refused(three, four, code="shape-mismatch", says=("(3,)", "(4,)", "'keys' and 'values'"))
    yield Refused(three, np.ones((3, 1), np.float32), code="shape-mismatch", says=("(3,)", "(3, 1)"))
    yield Refused(np.ones(3, np.int8), three, code="type-mismatch", says=("float32, float64, int32", "int8"))
