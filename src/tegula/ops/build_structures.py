"""Reads of spatial structures in kernels: their table, elements at addresses, and the arrays of a mesh."""

from __future__ import annotations

from tegula.ir import Op, TypeRule, Value
from tegula.ops.array import ArrayLoad, ArrayShape, array_type
from tegula.ops.base import public
from tegula.ops.builder import OpBuilder
from tegula.ops.structs import StructValue
from tegula.ops.structures import StructureLoad, StructureTable
from tegula.structs import StructType
from tegula.types import ArrayType, ElementType, VecType, element_bytes, float32, int32, uint64


@public("_structures")
def structures(b: OpBuilder) -> Value:
    """The address of the table of structures."""
    return b.one(StructureTable, [])


@public("_element_at")
def element_at(b: OpBuilder, address: Value, dtype: ElementType) -> Value:
    """The element of a type at an address."""
    return b.one(StructureLoad, [address], {"type": dtype})


# Arrays of a mesh ----------------------------------------------------------------------------------------------------


class StoredArray(Value):
    """A packed array of one dimension in the memory of a spatial structure, which kernels only read. `address`: of its
    first element; `count`: the number of its elements."""

    __slots__ = ("address", "count")

    def __init__(self, dtype: ElementType, address: Value, count: Value) -> None:
        super().__init__(ArrayType(dtype, 1), address.owner, address.name)
        self.address, self.count = address, count


def built_on_structure(b: OpBuilder, op: Op) -> list[Value]:
    """The results of an op on an array of a spatial structure."""
    if isinstance(op, ArrayLoad) and isinstance(op.array, StoredArray):
        a = op.array
        size = element_bytes(array_type(a.type).dtype)
        offset = b.binary("mul", b.cast(op.indices[0], uint64), b.const(size, uint64))
        return [
            b.one(StructureLoad, [b.binary("add", a.address, offset)], {"type": array_type(a.type).dtype})
        ]
    if isinstance(op, ArrayShape) and isinstance(op.array, StoredArray):
        return [op.array.count]
    raise TypeRule(f"{op.NAME} cannot take an array of a mesh", "pass the array itself to the kernel")


_VECTORS, _INDICES = ArrayType(VecType(3, float32), 1), ArrayType(int32, 1)
MESH_ARRAYS = StructType("Mesh", {"points": _VECTORS, "indices": _INDICES, "velocities": _VECTORS})
"""The arrays of a mesh: what `mesh_get` gives."""


@public("_mesh_arrays")
def mesh_arrays(
    b: OpBuilder, points: Value, indices: Value, velocities: Value, count: Value, corners: Value
) -> StructValue:
    """The arrays of a mesh at addresses, of so many points and corners of faces."""
    vector = _VECTORS.dtype
    arrays = [StoredArray(vector, points, count), StoredArray(int32, indices, corners)]
    return StructValue(MESH_ARRAYS, [*arrays, StoredArray(vector, velocities, count)])
