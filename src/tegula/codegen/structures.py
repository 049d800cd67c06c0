"""Reads of spatial structures: the table, whose address is passed with the report buffer, and elements at addresses,
with accesses as wide as the alignment allows."""

from __future__ import annotations

from tegula.codegen.scalar import REGISTER_COMPONENTS, Components
from tegula.codegen.sites import TABLE_SLOT
from tegula.codegen.state import State
from tegula.codegen.text import constant, memory_type, vector_of
from tegula.deferred import deferred_imports
from tegula.ops.structures import (
    StructureAdd,
    StructureLoad,
    StructurePrefetch,
    StructureTable,
    StructureValue,
)
from tegula.target import CudaTarget
from tegula.types import DType, VecType, bool_, components, element_bytes, scalar_of

with deferred_imports():
    from tegula.codegen.atomics import atomic_element

SHORT_VECTOR = 3
"""The number of components of vectors that are loaded both as a vector and as scalars."""
MASKED_BYTES, MASKED_BITS = 32, (32, 64)
"""The minimum size of the vector registers of a processor of x86-64 that has masked loads, and the sizes of their
elements in bits."""
MAX_ACCESS_BYTES = 16
"""The size of the widest access on a GPU, in bytes, and the maximum alignment of elements of structures."""


def structure_table(s: State, op: StructureTable) -> Components:
    """Lower `structure.table`. The report site makes the launch pass memory for reports."""
    s.site("structures", op.loc)
    at = s.memory.bytes_offset("%report", str(8 * TABLE_SLOT))
    return (s.code.emit(f"load i64, ptr {at}, align 8"),)


def structure_load(s: State, op: StructureLoad | StructureValue) -> Components:
    """Lower `structure.load` and `structure.value`."""
    t, address = op.type, s.scalar(op.address)
    scalar, count = scalar_of(t), components(t)
    on_gpu = isinstance(s.target, CudaTarget)
    space = "ptr addrspace(1)" if on_gpu else "ptr"
    pointer = s.code.emit(f"inttoptr i64 {address} to {space}")
    size = scalar.bits // 8
    max_width = (
        MAX_ACCESS_BYTES // size
        if on_gpu and element_bytes(t) % MAX_ACCESS_BYTES == 0 and scalar != bool_
        else 1
    )
    if s.code.packs and isinstance(t, VecType) and count in REGISTER_COMPONENTS and scalar != bool_:
        memory_kind = memory_type(scalar)
        vector = s.code.emit(
            f"load <{count} x {memory_kind}>, ptr {pointer}, align {size}, !invariant.load !{{}}"
        )
        return s.code.unpacked(memory_kind, count, vector)
    values: list[str] = []
    vector = ""
    if s.code.packs and isinstance(t, VecType) and count == SHORT_VECTOR and scalar != bool_:
        memory_kind = memory_type(scalar)
        vector = s.code.emit(
            f"load <{count} x {memory_kind}>, ptr {pointer}, align {size}, !invariant.load !{{}}"
        )
    for first in range(0, count, max_width):
        chunk_pointer = pointer
        if first:
            chunk_pointer = s.code.emit(f"getelementptr i8, {space} {pointer}, i64 {first * size}")
        memory_kind = vector_of(memory_type(scalar), max_width)
        loaded = s.code.emit(
            f"load {memory_kind}, {space} {chunk_pointer}, align {max_width * size}, !invariant.load !{{}}"
        )
        if scalar == bool_:
            loaded = s.code.emit(f"icmp ne i8 {loaded}, 0")
        if max_width == 1:
            values.append(loaded)
        else:
            values += [
                s.code.emit(f"extractelement {memory_kind} {loaded}, i32 {k}") for k in range(max_width)
            ]
    if vector:
        # Values that are packed into vector registers use the vector, all others the scalars; LLVM removes the other
        # loads.
        s.code.record_extracted(tuple(values), vector)
        _record_followed_by_zeros(s, tuple(values), scalar, pointer)
    return tuple(values)


def _record_followed_by_zeros(s: State, values: Components, scalar: DType, pointer: str) -> None:
    """Record the vector registers of a short vector whose components are followed by zeros, read by one masked load. A
    load of three components would be two loads and an insert. LLVM removes registers that are not used."""
    if not (s.target.is_x86 and s.target.vector_bytes >= MASKED_BYTES and scalar.bits in MASKED_BITS):
        return
    first, *others = REGISTER_COMPONENTS
    kind, zero = vector_of(memory_type(scalar), first), constant(scalar, 0)
    mask = ", ".join(f"i1 {'true' if k < SHORT_VECTOR else 'false'}" for k in range(first))
    loaded = s.memory.masked_load(pointer, scalar, first, f"<{mask}>", "zeroinitializer")
    s.code.packed[*values, *[zero] * (first - SHORT_VECTOR)] = loaded
    for count in others:
        order = ", ".join(f"i32 {min(k, first)}" for k in range(count))
        s.code.packed[*values, *[zero] * (count - SHORT_VECTOR)] = s.code.emit(
            f"shufflevector {kind} {loaded}, {kind} zeroinitializer, <{count} x i32> <{order}>"
        )


def structure_prefetch(s: State, op: StructurePrefetch) -> None:
    """Lower `structure.prefetch`. GPUs ignore prefetches, because other threads hide the latency of reads."""
    if not isinstance(s.target, CudaTarget):
        pointer = s.code.emit(f"inttoptr i64 {s.scalar(op.address)} to ptr")
        s.code.call("prefetch", "p0", "void", f"ptr {pointer}, i32 0, i32 3, i32 1")


def structure_add(s: State, op: StructureAdd) -> None:
    """Lower `structure.add`."""
    pointer = s.code.emit(f"inttoptr i64 {s.scalar(op.address)} to ptr")
    atomic_element(s.code, "add", pointer, op.type, s.components(op.value))
