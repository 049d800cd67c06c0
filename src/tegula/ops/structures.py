"""Reads of the memory of spatial structures: the table of those that exist on a device, and elements at an address.

The host owns this memory, and no kernel changes it while another one reads it, so that reads have no order among the
effects of a kernel."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.ir import Op
from tegula.ir.fields import attr, operand
from tegula.ops.base import element, require
from tegula.types import Type, uint64


class StructureTable(Op):
    """The address of the table of structures of the device that the kernel runs on, uint64."""

    __slots__ = ()
    NAME = "structure.table"

    def infer(self) -> Sequence[Type]:
        return [uint64]


class StructureLoad(Op):
    """Reads an element at an address. Operand: the address, uint64. Attribute `type`: the element's type, whose
    components are adjacent. The address must be that of such an element of a structure. No gradient flows through what
    structures hold."""

    __slots__ = ()
    NAME = "structure.load"
    PURE = False
    address = operand(place=True)
    type = attr()

    def infer(self) -> Sequence[Type]:
        require(self.address.type == uint64, f"an address is a uint64, got {self.address.type}")
        return [element(self.type)]
