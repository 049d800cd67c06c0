"""Block-scoped stacks."""

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
    """An empty stack of type attribute `type`."""

    __slots__ = ()
    NAME = "stack.new"
    COOPERATIVE = True
    PURE = False
    type = attr()
    stack = output(WRITE)

    def infer(self) -> Sequence[Type]:
        return [stack_type(self.type)]


class StackPush(Op):
    """Operands: stack, per-lane value, per-lane bool. Lanes with the flag push, in lane order; the result is the slot
    written, or -1 for a lane that did not push or found the stack full."""

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
            self.value.type == stack.dtype, f"the stack holds {stack.dtype}, the value is {self.value.type}"
        )
        require(self.has_value.type == bool_, f"has_value must be bool, got {self.has_value.type}")
        return [int32]


class StackPop(Op):
    """Every lane takes one element, in lane order from the top; results: the value (0 where there was none) and its
    slot, or -1."""

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
    """The number of elements, int32. A lane op."""

    __slots__ = ()
    NAME = "stack.count"
    PURE = False
    stack = operand(READ)

    def infer(self) -> Sequence[Type]:
        stack_type(self.stack.type)
        return [int32]
