"""Scalarised lowering of bool vectors whose only uses are `vec.bits`: the expression tree of each component is emitted
separately, so that only the intermediate results of one component are live."""

from __future__ import annotations

from tegula.codegen.scalar import Components, lower
from tegula.codegen.state import State
from tegula.ir import Contents, Op, Value
from tegula.ir.rewrite import uses
from tegula.ops.base import Elementwise, element
from tegula.ops.scalar import Select
from tegula.ops.vector import VecBits
from tegula.types import VecType, bool_, components


class Flags:
    """The elementwise ops of a kernel whose only transitive users are `vec.bits`, and their lowering."""

    def __init__(self, s: State, contents: Contents) -> None:
        self.s = s
        self.users = uses(s.kernel.body) if contents.have(VecBits) else {}
        self._cached: dict[Op, bool] = {}

    def wait(self, op: Op) -> bool:
        """Whether the lowering of an op is deferred to its `vec.bits` user."""
        if not self.users:
            return False
        if op not in self._cached:
            self._cached[op] = self._is_deferrable(op)
        return self._cached[op]

    def _is_deferrable(self, op: Op) -> bool:
        if not isinstance(op, Elementwise | Select) or not isinstance(op.result.type, VecType):
            return False
        users = [user for user, _ in self.users.get(op.result, ())]
        are_bools = all(v.type == bool_ or isinstance(v.type, VecType) for v in op.operands)
        return (
            are_bools and bool(users) and all(u.parent is op.parent and self._leads_to_bits(u) for u in users)
        )

    def _leads_to_bits(self, op: Op) -> bool:
        return isinstance(op, VecBits) or self.wait(op)

    def bits(self, op: VecBits) -> Components:
        """Lower `vec.bits`, with the ops that were deferred to it."""
        code, mask = self.s.code, "0"
        count = components(element(op.x.type))
        for k in range(count):
            flag = self._component(op.x, k, {})
            bit = code.emit(f"select i1 {flag}, i32 {1 << k}, i32 0")
            mask = bit if mask == "0" else code.emit(f"or i32 {mask}, {bit}")
        return (mask,)

    def _component(self, value: Value, k: int, known: dict[Value, str]) -> str:
        """A component of a value."""
        if value not in known:
            op = value.owner
            if isinstance(op, Op) and op in self._cached and self._cached[op]:
                parts = [(self._component(v, k, known),) for v in op.operands]
                (known[value],) = lower(self.s.code, op, parts, 1)
            else:
                parts = self.s.components(value)
                known[value] = parts[k if isinstance(value.type, VecType) else 0]
        return known[value]
