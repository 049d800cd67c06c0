"""Reads of the memory of spatial structures (a device's table of structures, and elements at an address), and additions
to the gradients of the arrays that structures are built from. The host owns this memory, and no kernel writes the
memory while another kernel reads it, so that reads are not ordered with other effects of a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tegula.handles import ENTRY_BYTES, SLOTS
from tegula.ir import Op, StructureRead, UnnamedUpdate, Value
from tegula.ir.fields import attr, operand
from tegula.ops.base import element, require
from tegula.types import ElementType, Type, element_bytes, int32, scalar_of, uint64

if TYPE_CHECKING:
    from tegula.ops.gradient import GradientBuilder


class StructureTable(Op):
    """The address of the table of structures of the device that the kernel runs on, uint64."""

    __slots__ = ()
    NAME = "structure.table"

    def infer(self) -> Sequence[Type]:
        return [uint64]


class StructureLoad(StructureRead):
    """Reads an element at an address. Operand: the address, uint64. Attribute `type`: the element's type, whose
    components are adjacent. The address must be the address of an element of this type in a structure. No gradient
    flows through the element."""

    __slots__ = ()
    NAME = "structure.load"
    PURE = False
    address = operand(index=True)
    type = attr()

    def infer(self) -> Sequence[Type]:
        require(self.address.type == uint64, f"an address is a uint64, got {self.address.type}")
        return [element(self.type)]


class StructurePrefetch(StructureRead):
    """Prefetches the cache line of an address on a CPU. Operand: the address, uint64."""

    __slots__ = ()
    NAME = "structure.prefetch"
    PURE = False
    HINT = True
    address = operand(index=True)

    def infer(self) -> Sequence[Type]:
        require(self.address.type == uint64, f"an address is a uint64, got {self.address.type}")
        return []

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        return [None]


class StructureValue(StructureRead):
    """Reads an element of an array from which a structure is built, like `structure.load`. Operands: the address of the
    element or of a copy; the id of the structure, uint64; the index of the element in the array, int32. Attributes:
    `type`, the element's type; `word`, the index of the word of the structure's entry in the table that holds the
    address of the array's gradient, or 0 for an array without gradient. The adjoint is added to the element of the
    gradient."""

    __slots__ = ()
    NAME = "structure.value"
    PURE = False
    DIFFERENTIABLE = True
    address = operand(index=True)
    id = operand(index=True)
    index = operand(index=True)
    type = attr()
    word = attr()

    def infer(self) -> Sequence[Type]:
        require(self.address.type == uint64, f"an address is a uint64, got {self.address.type}")
        require(self.id.type == uint64, f"an id is a uint64, got {self.id.type}")
        require(self.index.type == int32, f"an index is an int32, got {self.index.type}")
        return [element(self.type)]

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        id, index = b.forward_value(self.id), b.forward_value(self.index)

        def add() -> None:
            slot = b.binary("and", id, b.const(SLOTS - 1, uint64))
            offset = b.binary("mul", slot, b.const(ENTRY_BYTES, uint64))
            entry = b.binary("add", b.one(StructureTable, []), offset)
            stored_id = b.one(StructureLoad, [entry], {"type": uint64})
            gradient_word = b.binary("add", entry, b.const(8 * self.word, uint64))
            start = b.one(StructureLoad, [gradient_word], {"type": uint64})
            exists = b.binary(
                "and", b.compare("eq", stored_id, id), b.compare("ne", start, b.const(0, uint64))
            )
            step = b.binary("mul", b.cast(index, uint64), b.const(element_bytes(self.type), uint64))
            b.branch(exists, lambda: b.emit(StructureAdd, [b.binary("add", start, step), g]))

        if b.is_uniform_op(self):
            b.in_first_lane(add)
        else:
            add()
        return [None, None, None]


class StructureAdd(UnnamedUpdate):
    """Adds to an element of the gradient of an array from which a structure is built, atomically component by
    component. Operands: the address of the element, uint64; the addend, of the element's type."""

    __slots__ = ()
    NAME = "structure.add"
    PURE = False
    EACH_LANE = True
    VARYING = True
    OBSERVED = True
    address = operand(index=True)
    value = operand()

    def infer(self) -> Sequence[Type]:
        require(self.address.type == uint64, f"an address is a uint64, got {self.address.type}")
        require(scalar_of(element(self.value.type)).is_float, f"expected floats, got {self.value.type}")
        return []

    @property
    def type(self) -> ElementType:
        """The type of the element."""
        return element(self.value.type)
