"""Block-scoped stacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tegula.ir import Effect, Region
from tegula.ops.base import TileOp, require
from tegula.types import StackType, Type, bool_, int32

Attrs = Mapping[str, Any]


def stack_type(t: Type) -> StackType:
    require(isinstance(t, StackType), f"expected a tile stack, got {t}")
    assert isinstance(t, StackType)
    return t


class StackNew(TileOp):
    """An empty stack of type attribute `type`."""

    __slots__ = ()
    NAME = "stack.new"
    COOPERATIVE = True
    PURE = False

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        return [stack_type(attrs["type"])]

    def effects(self) -> Sequence[Effect]:
        return (Effect("write", self.results[0]),)


class StackPush(TileOp):
    """Operands: stack, per-lane value, per-lane bool. Lanes with the flag push, in lane order; the result is the slot
    written, or -1 for a lane that did not push or found the stack full."""

    __slots__ = ()
    NAME = "stack.push"
    NONDIFFERENTIABLE = "stacks have no derivative"
    COOPERATIVE = True
    PURE = False
    VARYING = True
    LANE_OPERANDS = (1, 2)

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        stack = stack_type(operands[0])
        require(operands[1] == stack.dtype, f"the stack holds {stack.dtype}, the value is {operands[1]}")
        require(operands[2] == bool_, f"has_value must be bool, got {operands[2]}")
        return [int32]

    def effects(self) -> Sequence[Effect]:
        return (Effect("read", self.operands[0]), Effect("write", self.operands[0]))


class StackPop(TileOp):
    """Every lane takes one element, in lane order from the top; results: the value (0 where there was none) and its
    slot, or -1."""

    __slots__ = ()
    NAME = "stack.pop"
    NONDIFFERENTIABLE = "stacks have no derivative"
    COOPERATIVE = True
    PURE = False
    VARYING = True

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        return [stack_type(operands[0]).dtype, int32]

    def effects(self) -> Sequence[Effect]:
        return (Effect("read", self.operands[0]), Effect("write", self.operands[0]))


class StackClear(TileOp):
    """Empties the stack."""

    __slots__ = ()
    NAME = "stack.clear"
    COOPERATIVE = True
    PURE = False

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        stack_type(operands[0])
        return []

    def effects(self) -> Sequence[Effect]:
        return (Effect("write", self.operands[0]),)


class StackCount(TileOp):
    """The number of elements, int32. A lane op."""

    __slots__ = ()
    NAME = "stack.count"
    PURE = False

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        stack_type(operands[0])
        return [int32]

    def effects(self) -> Sequence[Effect]:
        return (Effect("read", self.operands[0]),)
