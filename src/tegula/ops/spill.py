"""Values that a thread of a GPU keeps in its memory instead of registers, and reads where they are used.

A long loop may need more values than there are registers. ptxas chooses the values that it stores to memory without
knowledge of the branches that are rare; these ops name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tegula.ir import Op, Value
from tegula.ir.fields import operand
from tegula.ops.base import element
from tegula.types import Type

if TYPE_CHECKING:
    from tegula.ops.gradient import GradientBuilder


class _Identity(Op):
    """The operand: a scalar, a vector or a matrix."""

    __slots__ = ()
    x = operand()

    def infer(self) -> Sequence[Type]:
        return [element(self.x.type)]

    @staticmethod
    def ref(attrs: Mapping[str, Any], *operands: np.ndarray) -> np.ndarray:
        return operands[0]


class Spill(_Identity):
    """The operand, a scalar, vector or matrix. On a GPU a thread stores the value to its memory, unless all threads of
    a block have the same value."""

    __slots__ = ()
    NAME = "lane.spill"

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        return grads


class Reload(_Identity):
    """The operand, a scalar, vector or matrix. On a GPU the result of a `lane.spill` is read from the thread's memory
    where this op stands, so that the value needs no registers before. The op is not moved or merged with others."""

    __slots__ = ()
    NAME = "lane.reload"
    PURE = False

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        return grads
