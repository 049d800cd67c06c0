"""Reads of spatial structures in kernels: their table, elements at addresses, and the arrays of a mesh."""

from __future__ import annotations

from tegula.ir import Op, TypeRule, Value
from tegula.ops.array import ArrayLoad, ArrayShape, array_type
from tegula.ops.base import public
from tegula.ops.builder import OpBuilder
from tegula.ops.scalar import Cmp, DotBytes, PermuteBytes, Select
from tegula.ops.spill import Reload, Spill
from tegula.ops.structs import StructValue
from tegula.ops.structures import StructureLoad, StructurePrefetch, StructureTable, StructureValue
from tegula.ops.vector import VecBits, VecUnset
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


@public("_read_soon")
def prefetch(b: OpBuilder, address: Value) -> None:
    """Prefetch the cache line of an address on a CPU."""
    b.emit(StructurePrefetch, [address])


@public("_value_at")
def value_at(b: OpBuilder, address: Value, dtype: ElementType, id: Value, index: Value, word: int) -> Value:
    """The element of a type at an address. The element's adjoint is added to the array's gradient at `index`."""
    return b.one(StructureValue, [address, id, index], {"type": dtype, "word": word})


@public("_each_below")
def each_below(b: OpBuilder, x: Value, y: Value) -> Value:
    """For each component of two vectors, whether x's component is below y's."""
    return b.one(Cmp, [x, y], {"pred": "lt"})


@public("_each_within")
def each_within(b: OpBuilder, x: Value, y: Value) -> Value:
    """For each component of two vectors, whether x's component is at most y's; false for NaN."""
    return b.one(Cmp, [x, y], {"pred": "le"})


@public("_larger_of_each")
def larger_of_each(b: OpBuilder, x: Value, y: Value) -> Value:
    """For each component of two vectors, x's component if it is above y's, else y's."""
    return b.one(Select, [b.one(Cmp, [x, y], {"pred": "gt"}), x, y])


@public("_smaller_of_each")
def smaller_of_each(b: OpBuilder, x: Value, y: Value) -> Value:
    """For each component of two vectors, x's component if it is below y's, else y's."""
    return b.one(Select, [b.one(Cmp, [x, y], {"pred": "lt"}), x, y])


@public("_pick_each")
def pick_each(b: OpBuilder, flags: Value, x: Value, y: Value) -> Value:
    """For each component of two vectors, x's component where the flag is set, else y's."""
    return b.one(Select, [flags, x, y])


@public("_permute_bytes")
def permute_bytes(b: OpBuilder, x: Value, y: Value, selector: Value) -> Value:
    """For each component of three vectors of uint32, the bytes of x and y that the selector names."""
    return b.one(PermuteBytes, [x, y, selector])


@public("_dot_bytes")
def dot_bytes(b: OpBuilder, x: Value, y: Value, z: Value) -> Value:
    """For each component of three vectors of uint32, z plus the sum of the signed bytes of x times the unsigned bytes
    of y."""
    return b.one(DotBytes, [x, y, z])


@public("_unset")
def unset(b: OpBuilder, dtype: ElementType) -> Value:
    """A vector of a type whose components have no particular value."""
    return b.one(VecUnset, [], {"type": dtype})


@public("_spill")
def spill(b: OpBuilder, x: Value) -> Value:
    """A value that a thread of a GPU keeps in its memory, for `_reload`."""
    return b.one(Spill, [x])


@public("_reload")
def reload(b: OpBuilder, x: Value) -> Value:
    """The value of a `_spill`, read from the thread's memory of a GPU."""
    return b.one(Reload, [x])


@public("_bits")
def bits(b: OpBuilder, x: Value) -> Value:
    """The components of a vector of bools as the bits of a uint32; component 0 is the lowest bit."""
    return b.one(VecBits, [x])


# Arrays of a mesh ----------------------------------------------------------------------------------------------------


class StoredArray(Value):
    """A packed read-only array of one dimension in the memory of a spatial structure. `address`: the address of the
    first element; `count`: the number of elements; `id`: the id of the structure; `word`: the index of the word of the
    structure's entry that holds the address of the array's gradient, None for an array without gradient."""

    __slots__ = ("address", "count", "id", "word")

    def __init__(
        self, dtype: ElementType, address: Value, count: Value, id: Value, word: int | None = None
    ) -> None:
        super().__init__(ArrayType(dtype, 1), address.owner, address.name)
        self.address, self.count, self.id, self.word = address, count, id, word


def lower_stored_access(b: OpBuilder, op: Op) -> list[Value]:
    """The results of an op on an array of a spatial structure."""
    if isinstance(op, ArrayLoad) and isinstance(op.array, StoredArray):
        a, index = op.array, op.indices[0]
        dtype = array_type(a.type).dtype
        offset = b.binary("mul", b.cast(index, uint64), b.const(element_bytes(dtype), uint64))
        address = b.binary("add", a.address, offset)
        if a.word is None:
            return [b.one(StructureLoad, [address], {"type": dtype})]
        return [value_at(b, address, dtype, a.id, b.cast(index, int32), a.word)]
    if isinstance(op, ArrayShape) and isinstance(op.array, StoredArray):
        return [op.array.count]
    raise TypeRule(f"{op.NAME} cannot take an array of a mesh", "pass the array itself to the kernel")


_VECTORS, _INDICES = ArrayType(VecType(3, float32), 1), ArrayType(int32, 1)
MESH_ARRAYS = StructType("Mesh", {"points": _VECTORS, "indices": _INDICES, "velocities": _VECTORS})
"""The arrays of a mesh, which `mesh_get` returns."""


@public("_mesh_arrays")
def mesh_arrays(
    b: OpBuilder,
    points: Value,
    indices: Value,
    velocities: Value,
    counts: tuple[Value, Value],
    id: Value,
    words: tuple[int, int],
) -> StructValue:
    """The arrays of a mesh at the given addresses. `counts`: the numbers of points and of corners of faces."""
    vector, (count, corners) = _VECTORS.dtype, counts
    return StructValue(
        MESH_ARRAYS,
        [
            StoredArray(vector, points, count, id, words[0]),
            StoredArray(int32, indices, corners, id),
            StoredArray(vector, velocities, count, id, words[1]),
        ],
    )
