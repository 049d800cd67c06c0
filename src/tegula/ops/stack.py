"""Ops on stacks, which the threads of a block share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tegula.ir import Op
from tegula.ir.fields import READ, WRITE, attr, operand, output
from tegula.ops.base import require
from tegula.types import StackType, Type, bool_, int32

Attrs = Mapping[str, Any]


def stack_type(t: Type) -> StackType:
    """The type as a stack type; TypeRule otherwise."""
    require(isinstance(t, StackType), f"expected a tile stack, got {t}")
    assert isinstance(t, StackType)
    return t


class StackNew(Op):
    """A new empty stack of the type `type` (attribute)."""

    __slots__ = ()
    NAME = "stack.new"
    COOPERATIVE = True
    PURE = False
    type = attr()
    stack = output(WRITE)

    def infer(self) -> Sequence[Type]:
        return [stack_type(self.type)]


class StackPush(Op):
    """Pushes the values of the lanes whose flag is true, in lane order. Operands: stack, per-lane value, per-lane bool.
    The result is the written slot, or -1 for a lane that did not push or found the stack full."""

    __slots__ = ()
    NAME = "stack.push"
    NONDIFFERENTIABLE = "stacks have no derivative"
    COOPERATIVE = True
    PURE = False
    VARYING = True
    stack = operand(READ, WRITE)
    value = operand(lane=True)
    has_value = operand(lane=True)

    def infer(self) -> Sequence[Type]:
        stack = stack_type(self.stack.type)
        require(
            self.value.type == stack.dtype,
            f"the stack holds {stack.dtype}, but the value is {self.value.type}",
        )
        require(self.has_value.type == bool_, f"has_value must be bool, got {self.has_value.type}")
        return [int32]


class StackPop(Op):
    """Pops one element for each lane, in lane order from the top. Results: the element and its slot; 0 and -1 for lanes
    that found the stack empty."""

    __slots__ = ()
    NAME = "stack.pop"
    NONDIFFERENTIABLE = "stacks have no derivative"
    COOPERATIVE = True
    PURE = False
    VARYING = True
    stack = operand(READ, WRITE)
    value = output()
    slot = output()

    def infer(self) -> Sequence[Type]:
        return [stack_type(self.stack.type).dtype, int32]


class StackClear(Op):
    """Empties the stack."""

    __slots__ = ()
    NAME = "stack.clear"
    COOPERATIVE = True
    PURE = False
    stack = operand(WRITE)

    def infer(self) -> Sequence[Type]:
        stack_type(self.stack.type)
        return []


class StackCount(Op):
    """The number of elements of a stack, int32. A lane op."""

    __slots__ = ()
    NAME = "stack.count"
    PURE = False
    stack = operand(READ)

    def infer(self) -> Sequence[Type]:
        stack_type(self.stack.type)
        return [int32]
