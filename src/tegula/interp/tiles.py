"""Cooperative ops on tiles that are not pure functions of arrays: memory, regions, absent lanes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tegula.interp.machine import Machine, Mask, handles
from tegula.interp.memory import UPDATES, inside_tile, swapped, update
from tegula.ir import Op, Region, ScatteredAccess, TileAccess, Value
from tegula.ops.array_gather import ArrayGather, ArrayScatter, ArrayScatterAtomic, ArrayScatterCas
from tegula.ops.linear import TileMatmulWait
from tegula.ops.tile import (
    TileAtomic,
    TileEmpty,
    TileFillAbsent,
    TileLoad,
    TileMap,
    TileMarkPartial,
    TileReduce,
    TileSlice,
    TileStore,
)
from tegula.types import TileType


def tile_of(value: Value) -> TileType:
    """The type of a value that is a tile."""
    t = value.type
    assert isinstance(t, TileType)
    return t


def elements_present(m: Machine, t: TileType) -> np.ndarray:
    """A mask of the present elements of a tile; elements of absent lanes of a partial tile are not present."""
    if not t.partial:
        return np.ones(t.shape, np.bool_)
    return np.broadcast_to(m.present, t.shape)


def fill_absent(m: Machine, t: TileType, tile: np.ndarray) -> np.ndarray:
    """The tile with zeros for absent elements, as the interpreter keeps all tiles."""
    if not t.partial:
        return tile
    out = tile.copy()
    out[~elements_present(m, t)] = 0
    return out


@handles(TileEmpty)
def run_empty(m: Machine, op: TileEmpty, mask: Mask) -> Any:
    t = op.type
    return m.zeros(t.dtype, *t.shape)


@handles(TileFillAbsent, TileMarkPartial)
def run_partial(m: Machine, op: TileFillAbsent | TileMarkPartial, mask: Mask) -> Any:
    t = tile_of(op.tile)
    return fill_absent(m, TileType(t.dtype, t.shape, True), m.env[op.tile])


@handles(TileSlice)
def run_slice(m: Machine, op: TileSlice, mask: Mask) -> Any:
    tile = m.env[op.tile]
    starts = [m.group(v) for v in op.starts]
    if not inside_tile(m, op, tile, [int(s) for s in starts], 0):
        return np.zeros((*op.shape, *tile.shape[len(starts) :]), tile.dtype)
    return TileSlice.ref(op.attrs, tile, *starts, len(starts))


@handles(TileMatmulWait)
def run_matmul_wait(m: Machine, op: TileMatmulWait, mask: Mask) -> Any:
    """A wait for matmuls, a no-op: in the interpreter, matmuls are synchronous."""
    tiles = tuple(m.env[v] for v in op.operands)
    return tiles[0] if len(tiles) == 1 else tiles


# Global memory ----------------------------------------------------------------------------------------------


def window(
    m: Machine, op: Op, t: TileType, source: Value, offsets: Sequence[Value]
) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """A mask of the elements of a tile at offsets of an array that are present and inside the array, and their array
    indices."""
    array = m.group(source)
    starts = [int(m.group(v)) for v in offsets]
    at = np.meshgrid(*(s + np.arange(n) for s, n in zip(starts, t.shape, strict=True)), indexing="ij")
    present = elements_present(m, t)
    inside = present.copy()
    for i, n in zip(at, array.shape, strict=False):
        inside &= (i >= 0) & (i < n)
    unchecked = isinstance(op, TileAccess) and (not op.bounds_check or op.aligned)
    if unchecked and (present & ~inside).any():
        first = tuple(np.argwhere(present & ~inside)[0])
        m.report.out_of_bounds(op, source, [int(i[first]) for i in at], array.shape[: len(at)], m.block, 0)
    return inside, tuple(i[inside] for i in at)


@handles(TileLoad)
def run_load(m: Machine, op: TileLoad, mask: Mask) -> Any:
    array, fill = m.group(op.array), m.group(op.fill)
    t = tile_of(op.results[0])
    inside, at = window(m, op, t, op.array, op.offset)
    out = np.broadcast_to(fill, (*t.shape, *fill.shape)).copy()
    out[inside] = array[at]
    return out


@handles(TileStore)
def run_store(m: Machine, op: TileStore, mask: Mask) -> None:
    array, tile = m.group(op.array), m.env[op.tile]
    inside, at = window(m, op, tile_of(op.tile), op.array, op.offset)
    array[at] = tile[inside]


@handles(TileAtomic)
def run_tile_atomic(m: Machine, op: TileAtomic, mask: Mask) -> Any:
    array, tile = m.group(op.array), m.env[op.tile]
    inside, at = window(m, op, tile_of(op.tile), op.array, op.offset)
    out = np.zeros_like(tile)
    out[inside] = update(array, at, [tile[inside]], UPDATES[op.op])
    return out


def element_indices(
    m: Machine, op: ScatteredAccess, array: np.ndarray, t: TileType
) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """A mask of the elements of a tile that are selected, present and inside the array, and their array indices."""
    inside = m.env[op.where] & elements_present(m, t)
    at = [m.env[v] for v in op.at]
    for i, n in zip(at, array.shape, strict=False):
        inside &= (i >= 0) & (i < n)
    return inside, tuple(i[inside] for i in at)


@handles(ArrayGather)
def run_gather_array(m: Machine, op: ArrayGather, mask: Mask) -> Any:
    array, fill, t = m.group(op.array), m.group(op.fill), tile_of(op.results[0])
    inside, at = element_indices(m, op, array, t)
    out = np.broadcast_to(fill, (*t.shape, *fill.shape)).copy()
    out[inside] = array[at]
    return out


@handles(ArrayScatter)
def run_scatter_array(m: Machine, op: ArrayScatter, mask: Mask) -> None:
    array, tile = m.group(op.array), m.env[op.tile]
    inside, at = element_indices(m, op, array, tile_of(op.tile))
    array[at] = tile[inside]


@handles(ArrayScatterAtomic)
def run_scatter_atomic(m: Machine, op: ArrayScatterAtomic, mask: Mask) -> Any:
    array, tile = m.group(op.array), m.env[op.tile]
    inside, at = element_indices(m, op, array, tile_of(op.tile))
    out = np.zeros_like(tile)
    out[inside] = update(array, at, [tile[inside]], UPDATES[op.op])
    return out


@handles(ArrayScatterCas)
def run_scatter_cas(m: Machine, op: ArrayScatterCas, mask: Mask) -> Any:
    array, tile = m.group(op.array), m.env[op.tile]
    inside, at = element_indices(m, op, array, tile_of(op.tile))
    out = np.zeros_like(tile)
    out[inside] = update(array, at, [tile[inside], m.env[op.expected][inside]], swapped)
    return out


# Regions ----------------------------------------------------------------------------------------------------


def run_elements(
    m: Machine, region: Region, args: Sequence[np.ndarray], present: np.ndarray | None = None
) -> np.ndarray:
    """Run a region once per element: args are [n, *element_shape]."""
    n = len(args[0])
    mask = np.ones(n, np.bool_) if present is None else present
    return m.elements(n, mask).region(region, args, mask)[0]


@handles(TileMap)
def run_map(m: Machine, op: TileMap, mask: Mask) -> Any:
    t = tile_of(op.results[0])
    args = []
    for operand in op.operands:
        if isinstance(operand.type, TileType):
            x = m.env[operand]
            args.append(x.reshape(t.size, *x.shape[len(t.shape) :]))
        else:
            x = m.group(operand)
            args.append(np.broadcast_to(x, (t.size, *x.shape)).copy())
    out = run_elements(m, op.function, args, elements_present(m, t).reshape(-1))
    return fill_absent(m, t, out.reshape(*t.shape, *out.shape[1:]))


def fold(m: Machine, region: Region, x: np.ndarray) -> np.ndarray:
    """The pairwise reduction of x over its first dimension; the other dimensions are [n, *element_shape]."""
    while len(x) > 1:
        pairs = len(x) // 2
        left, right = x[0 : 2 * pairs : 2], x[1 : 2 * pairs : 2]
        element = x.shape[2:]
        combined = run_elements(m, region, [left.reshape(-1, *element), right.reshape(-1, *element)])
        x = np.concatenate([combined.reshape(pairs, *x.shape[1:]), x[2 * pairs :]])
    return x[0]


def _filled_parts(m: Machine, op: TileReduce) -> list[int]:
    """The parts of a partial reduction that are not empty: their first element is in bounds and of a present lane."""
    extent = list(op.extent)
    if op.lanes:
        extent[-1] = m.count
    bases = op.bases
    return [k for k, base in enumerate(bases) if all(i < n for i, n in zip(base, extent, strict=True))]


@handles(TileReduce)
def run_reduce(m: Machine, op: TileReduce, mask: Mask) -> Any:
    t, reduced = tile_of(op.tile), tile_of(op.results[0])
    tile, axis, rank = m.env[op.tile], op.axis, len(t.shape)
    element = tile.shape[rank:]
    if "bases" in op.attrs:
        tile = np.take(tile, _filled_parts(m, op), axis or 0)
    if t.partial and (axis is None or axis == rank - 1):
        tile = np.take(tile, np.arange(m.count), rank - 1)
    lines = tile.reshape(-1, 1, *element) if axis is None else np.moveaxis(tile, axis, 0)
    lines = lines.reshape(lines.shape[0], -1, *element)
    return fill_absent(m, reduced, fold(m, op.combine, lines).reshape(*reduced.shape, *element))
