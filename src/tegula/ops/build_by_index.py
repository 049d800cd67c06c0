"""Arrays indexed by index arrays: element i of dimension d is element `indices[d][i]` of the array's dimension d.

An indexed array is not a value of the IR: `emit` replaces an op on an indexed array by ops on the array and on the
index arrays. Gradients, checks and code generation therefore need no support for indexed arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tegula.ir import ElementAccess, Op, ScatteredAccess, TypeRule, Value
from tegula.ops.array import ArrayLoad, ArrayShape, ArrayView, array_type
from tegula.ops.array_gather import ArrayGather, ArrayScatter, ArrayScatterAtomic
from tegula.ops.build_coordinates import coordinates, select_all
from tegula.ops.builder import OpBuilder
from tegula.ops.tile import TileAtomic, TileLoad, TileStore, tile_type
from tegula.types import ArrayType, int32, int64


class IndexedArray(Value):
    """An array indexed by an index array for each dimension."""

    __slots__ = ("data", "indices")

    def __init__(self, data: Value, indices: Sequence[Value]) -> None:
        super().__init__(ArrayType(array_type(data.type).dtype, len(indices)), data.owner, data.name)
        self.data, self.indices = data, tuple(indices)

    def element_indices(self, b: OpBuilder, at: Sequence[Value]) -> list[Value]:
        """The indices of an element in the array."""
        return [b.one(ArrayLoad, [index, i]) for index, i in zip(self.indices, at, strict=True)]

    def tile_indices(self, b: OpBuilder, in_bounds: Value, at: Sequence[Value]) -> list[Value]:
        """The coordinates in the array of the elements of a tile, given the selection and the coordinates in the
        indexed array; -1 for elements outside of the indexed array."""
        index_values: list[Value] = []
        for index, i in zip(self.indices, at, strict=True):
            outside = b.const(-1, array_type(index.type).dtype)
            index_values.append(b.tile(b.cast(b.one(ArrayGather, [index, outside, in_bounds, i]), int64)))
        return index_values


def lower_indexed_access(b: OpBuilder, op: Op) -> list[Value]:
    """The results of an op on an indexed array, built on the array and the index arrays."""
    if isinstance(op, ElementAccess) and isinstance(op.target, IndexedArray):
        return _lower_element(b, op, op.target)
    if isinstance(op, ArrayShape) and isinstance(op.array, IndexedArray):
        return [_lower_shape(b, op.array, op.dim)]
    if isinstance(op, ArrayView) and isinstance(op.array, IndexedArray):
        return [_lower_view(b, op, op.array)]
    if isinstance(op, TileLoad | TileStore | TileAtomic) and isinstance(op.array, IndexedArray):
        return _lower_tile(b, op, op.array)
    if isinstance(op, ScatteredAccess) and isinstance(op.array, IndexedArray):
        return _lower_scattered(b, op, op.array)
    raise TypeRule(f"{op.NAME} cannot take an indexed array", "copy the elements to an array: a.contiguous()")


def _lower_element(b: OpBuilder, op: Any, a: IndexedArray) -> list[Value]:
    op.indices = a.element_indices(b, op.indices)
    op.array = a.data
    return b.insert(op).results


def _lower_shape(b: OpBuilder, a: IndexedArray, dim: int) -> Value:
    return b.one(ArrayShape, [a.indices[dim]], {"dim": 0})


def _lower_view(b: OpBuilder, op: ArrayView, a: IndexedArray) -> Value:
    """A view by basic indexing: an index selects an element of the index array, a slice is a view of the index
    array."""
    bounds = iter(op.bounds)
    operands: list[Value] = [a.data]
    spec: list[Any] = []
    indices: list[Value] = []
    for d, (entry, index) in enumerate(zip(op.spec, a.indices, strict=True)):
        if entry == "index":
            operands.append(b.one(ArrayLoad, [index, next(bounds)]))
            spec.append("index")
            continue
        indices.append(b.one(ArrayView, [index, next(bounds), next(bounds)], {"spec": (entry,)}))
        operands += [b.const(0, int32), b.one(ArrayShape, [a.data], {"dim": d})]
        spec.append(("slice", 1))
    return IndexedArray(b.one(ArrayView, operands, {"spec": tuple(spec)}), indices)


def _lower_tile(b: OpBuilder, op: TileLoad | TileStore | TileAtomic, a: IndexedArray) -> list[Value]:
    """A load, store or update of a tile at an offset of an indexed array."""
    shape = tile_type((op.result if isinstance(op, TileLoad) else op.tile).type, partial=True).shape
    in_bounds, coordinates_in_array = select_all(b, shape), coordinates(b, shape, op.offset)
    if isinstance(op, TileLoad):
        return b.emit(
            ArrayGather, [a.data, op.fill, in_bounds, *a.tile_indices(b, in_bounds, coordinates_in_array)]
        )
    if isinstance(op, TileStore):
        return b.emit(
            ArrayScatter, [a.data, op.tile, in_bounds, *a.tile_indices(b, in_bounds, coordinates_in_array)]
        )
    return b.emit(
        ArrayScatterAtomic,
        [a.data, op.tile, in_bounds, *a.tile_indices(b, in_bounds, coordinates_in_array)],
        {"op": op.op},
    )


def _lower_scattered(b: OpBuilder, op: ScatteredAccess, a: IndexedArray) -> list[Value]:
    """An access of elements at coordinates of an indexed array."""
    return b.emit(type(op), [a.data, *op.moved, op.where, *a.tile_indices(b, op.where, op.at)], op.attrs)
