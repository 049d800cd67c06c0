"""Reads of the memory of spatial structures: the table of those that exist on a device, and elements at an address.

The host owns this memory, and no kernel changes it while another one reads it, so that reads have no order among the
effects of a kernel."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.ir import Op, TypeRule, Value
from tegula.ir.fields import attr, operand
from tegula.ops.array import ArrayLoad, ArrayShape, array_type
from tegula.ops.base import element, public, require
from tegula.ops.builder import OpBuilder
from tegula.ops.structs import StructValue
from tegula.structs import StructType
from tegula.types import ArrayType, ElementType, Type, VecType, element_bytes, float32, int32, uint64


class StructureTable(Op):
    """The address of the table of structures of the device that the kernel runs on, uint64."""

    __slots__ = ()
    NAME = "structure.table"

    def infer(self) -> Sequence[Type]:
        return [uint64]


class StructureLoad(Op):
    """Reads an element at an address. Operand: the address, uint64. Attribute `type`: the element's type, whose
    components are adjacent. The address must be that of such an element of a structure."""

    __slots__ = ()
    NAME = "structure.load"
    NONDIFFERENTIABLE = "what a spatial structure holds has no derivative"
    PURE = False
    address = operand(place=True)
    type = attr()

    def infer(self) -> Sequence[Type]:
        require(self.address.type == uint64, f"an address is a uint64, got {self.address.type}")
        return [element(self.type)]


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
