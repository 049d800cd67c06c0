"""Calls of cooperative functions, which all lanes of a group execute together on tiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tegula.ir import Region, Value
from tegula.ops.base import require, types
from tegula.ops.gradient import Call, GradientBuilder, adjoint_type, has_adjoint
from tegula.types import Type


class CooperativeCall(Call):
    """A call that all lanes of the group execute together; `call` is executed by each lane. Operands and results are
    tiles and uniform scalars. Regions: the body and, in kernels to be differentiated, the adjoint if the function
    declares one. The adjoint takes the operands, the results and the results' adjoints, all in the types of adjoints,
    and yields the increment of each float operand's adjoint. Without an adjoint the body is differentiated."""

    __slots__ = ()
    NAME = "call.cooperative"
    COOPERATIVE = True
    ISOLATED = True

    def infer(self) -> Sequence[Type]:
        result_types, operands = types(self.function.yielded), types(self.arguments)
        require(types(self.function.args) == operands, "a call's body does not match its operands")
        if self.has_rule:
            expected = [*map(adjoint_type, (*operands, *result_types)), *adjoints(result_types)]
            require(
                types(self.rule.args) == expected and types(self.rule.yielded) == adjoints(operands),
                "a call's adjoint does not match",
            )
        return result_types

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        assert self.has_rule, "calls without an adjoint are inlined before the kernel is differentiated"
        adjoints_of_results = [
            b.zero(adjoint_type(r.type)) if g is None else g
            for r, g in zip(self.results, grads, strict=True)
            if has_adjoint(r.type)
        ]
        values = map(b.primal, (*self.arguments, *self.results))
        gradients = iter(b.inlined(self.rule, [*values, *adjoints_of_results]))
        return [next(gradients) if has_adjoint(v.type) else None for v in self.arguments]


def adjoints(value_types: Sequence[Type]) -> list[Type]:
    """The types of the adjoints of values, for values that have an adjoint."""
    return [adjoint_type(t) for t in value_types if has_adjoint(t)]


def rule_region(operands: Sequence[Type], results: Sequence[Type]) -> tuple[Region, list[list[Value]]]:
    """An empty adjoint region, and the region's arguments in three groups: operands, results, adjoints of results."""
    region = Region()
    value_types = (map(adjoint_type, operands), map(adjoint_type, results), adjoints(results))
    return region, [[region.add_argument(t) for t in group] for group in value_types]


__all__ = ["CooperativeCall", "adjoints", "rule_region"]
