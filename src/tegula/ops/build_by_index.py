"""Arrays indexed by index arrays: element i of dimension d is element `indices[d][i]` of the array's dimension d.

Such an array is no value of the IR: ops on it are built, at the one place where ops are made, from ops on the array and
on the index arrays. So gradients, checks and code generation need no support for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tegula.ir import ElementAccess, Op, TileAccess, TypeRule, Value
from tegula.ops.array import ArrayLoad, ArrayShape, ArrayView, array_type
from tegula.ops.base import PUBLIC
from tegula.ops.buffer import BufNew, BufRead
from tegula.ops.builder import OpBuilder
from tegula.ops.tile import (
    MOST_DIMENSIONS,
    TileAtomic,
    TileConcat,
    TileFull,
    TileLoad,
    TileReshape,
    TileSlice,
    TileStore,
    tile_type,
)
from tegula.types import ArrayType, int32, int64

Programs = Callable[[str, list[Value]], None]
"""The tracer of a program of the standard library, by the program's name (see stdlib/indexed_tiles.py)."""


class IndexedArray(Value):
    """An array indexed by an index array for each dimension. `padding`: the number of leading dimensions of length
    1."""

    __slots__ = ("data", "indices", "padding")

    def __init__(self, data: Value, indices: Sequence[Value], padding: int = 0) -> None:
        super().__init__(
            ArrayType(array_type(data.type).dtype, padding + len(indices)), data.owner, data.name
        )
        self.data, self.indices, self.padding = data, tuple(indices), padding

    def places(self, b: OpBuilder, at: Sequence[Value]) -> list[Value]:
        """The indices of an element in the array."""
        own = at[self.padding :]
        return [b.one(ArrayLoad, [index, i]) for index, i in zip(self.indices, own, strict=True)]


def built_by_index(b: OpBuilder, op: Op, programs: Programs) -> list[Value]:
    """The results of an op on an indexed array, built on the array and the index arrays."""
    if isinstance(op, ElementAccess) and isinstance(op.target, IndexedArray):
        return _element(b, op, op.target)
    if isinstance(op, ArrayShape) and isinstance(op.array, IndexedArray):
        return [_length(b, op.array, op.dim)]
    if isinstance(op, ArrayView) and isinstance(op.array, IndexedArray):
        return [_view(b, op, op.array)]
    if isinstance(op, TileLoad | TileStore | TileAtomic) and isinstance(op.array, IndexedArray):
        return _tile(b, op, op.array, programs)
    raise TypeRule(f"{op.NAME} cannot take an indexed array", "copy its elements to an array: a.contiguous()")


def _element(b: OpBuilder, op: Any, a: IndexedArray) -> list[Value]:
    op.indices = a.places(b, op.indices)
    op.array = a.data
    return b.insert(op).results


def _length(b: OpBuilder, a: IndexedArray, dim: int) -> Value:
    if dim < a.padding:
        return b.const(1, int32)
    return b.one(ArrayShape, [a.indices[dim - a.padding]], {"dim": 0})


def _view(b: OpBuilder, op: ArrayView, a: IndexedArray) -> Value:
    """A view by basic indexing: an index picks an element of the index array, a slice is a view of the index array."""
    rest = iter(op.bounds)
    operands: list[Value] = [a.data]
    spec: list[Any] = []
    indices: list[Value] = []
    for d, (entry, index) in enumerate(zip(op.spec, a.indices, strict=True)):
        if entry == "index":
            operands.append(b.one(ArrayLoad, [index, next(rest)]))
            spec.append("index")
            continue
        indices.append(b.one(ArrayView, [index, next(rest), next(rest)], {"spec": (entry,)}))
        operands += [b.const(0, int32), b.one(ArrayShape, [a.data], {"dim": d})]
        spec.append(("slice", 1))
    return IndexedArray(b.one(ArrayView, operands, {"spec": tuple(spec)}), indices)


def _tile(b: OpBuilder, op: TileAccess, a: IndexedArray, programs: Programs) -> list[Value]:
    """A tile load, store or update of an indexed array: the threads of the group move elements one by one through
    shared memory."""
    missing = MOST_DIMENSIONS - len(a.indices)
    offset = [b.const(0, int64)] * missing + [b.cast(o, int64) for o in op.offset]
    array = IndexedArray(a.data, a.indices, missing)
    if isinstance(op, TileLoad):
        tile, name, last = b.one(TileFull, [op.fill], {"shape": op.shape}), "load", []
    else:
        assert isinstance(op, TileStore | TileAtomic)
        tile, name = b.tile(op.tile), op.op if isinstance(op, TileAtomic) else "store"
        partial = tile_type(op.tile.type, partial=True).partial
        last = [b.value(PUBLIC["group_present"](b) if partial else tile_type(tile.type).shape[-1])]
    shape = tile_type(tile.type).shape
    held = [_cells(b, tile)]
    if isinstance(op, TileAtomic):
        held.append(_cells(b, b.one(TileFull, [b.const(0, tile_type(tile.type).dtype)], {"shape": shape})))
    sizes = [b.const(n, int32) for n in (math.prod(shape), *((1,) * missing + shape)[1:])]
    programs(name, [array, *held, *sizes, *offset, *last])
    return [] if isinstance(op, TileStore) else [_tile_in(b, held[-1], shape)]


def _cells(b: OpBuilder, tile: Value) -> Value:
    """A tile object in shared memory with a column for each thread, which holds a tile in row-major order."""
    size = tile_type(tile.type).size
    rows = -(-size // b.lanes)
    line = b.one(TileReshape, [tile], {"shape": (size,)})
    whole, missing = line, rows * b.lanes - size
    if missing:
        zeros = b.one(TileFull, [b.const(0, tile_type(tile.type).dtype)], {"shape": (missing,)})
        whole = b.one(TileConcat, [line, zeros], {"axis": 0})
    made = b.one(TileReshape, [whole], {"shape": (rows, b.lanes)})
    return b.one(BufNew, [made], {"storage": "shared"})


def _tile_in(b: OpBuilder, cells: Value, shape: tuple[int, ...]) -> Value:
    """The tile that an object holds."""
    whole, size = b.one(BufRead, [cells]), math.prod(shape)
    line = b.one(TileReshape, [whole], {"shape": (tile_type(whole.type).size,)})
    attrs = {"shape": (size,), "dims": (0,), "steps": (1,)}
    part = b.one(TileSlice, [line, b.const(0, int32)], attrs)
    return b.one(TileReshape, [part], {"shape": shape})
