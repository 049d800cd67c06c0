"""Unrolls loops over `tg.unrolled` late, so that the passes before work on a single body.

In each copy of the body the index is a constant, integer arithmetic on constants is folded, and only the taken
alternative of a branch on a constant condition remains."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tegula.ir import BranchLike, ConstantLike, Kernel, LoopLike, Op, Region, Value
from tegula.ir.rewrite import clone_op
from tegula.ops.scalar import Const
from tegula.passes.runner import Compilation, GpuCompilation
from tegula.types import DType, to_numpy


def unroll_late(kernel: Kernel, context: Compilation) -> None:
    """Rewrite the kernel in place; copies inherit the analysis results of the values from which they are copied."""
    _Unroller(context).region(kernel.body)


class _Heirs:
    """The analysis results that copies inherit: divergence, uniformity, layouts and shared memory allocations."""

    def __init__(self, context: Compilation) -> None:
        self.varying, self.divergent = context.uniformity.values, context.uniformity.divergent
        self.of_values: list[dict[Value, Any]] = []
        if isinstance(context, GpuCompilation):
            self.of_values = [context.layouts, context.shared.allocations]

    def inherit(self, copy: Value, value: Value) -> None:
        """Give the copy of a value the results of the analyses of the value."""
        if value in self.varying:
            self.varying.add(copy)
        for results in self.of_values:
            if value in results:
                results[copy] = results[value]

    def inherit_op(self, copy: Op, op: Op) -> None:
        """Give the copy of an op with regions the results of the analyses of the op."""
        if op in self.divergent:
            self.divergent.add(copy)


class _Unroller:
    """Unrolls loops. `replaced`: the values that replace the results of unrolled loops, and the last copies of values
    in these loops. `constants`: integers and bools that are constants. `constants_of`: the constants of each region
    under construction, by type and number; `unplaced`: those among them that no op reads so far, which are not in their
    region yet. `known`: results of arithmetic, by op and operands."""

    def __init__(self, context: Compilation) -> None:
        self.heirs = _Heirs(context)
        self.replaced: dict[Value, Value] = {}
        self.constants: dict[Value, Any] = {}
        self.constants_of: dict[tuple[Region, DType, Any], Value] = {}
        self.unplaced: dict[Value, Region] = {}
        self.known: dict[Any, tuple[Op, Any]] = {}

    def region(self, region: Region) -> None:
        """Unroll the loops of a region."""
        before, region.ops = region.ops, []
        for op in before:
            if self.replaced:
                op.substitute(self.replaced)
            positions = op.unrolled if isinstance(op, LoopLike) else None
            if positions is not None and isinstance(op, LoopLike):
                final = self._placed(self._copies(op, positions, self.replaced, region))
                self.replaced.update(zip(op.results, final, strict=True))
                continue
            for nested in op.regions:
                self.region(nested)
            if isinstance(op, ConstantLike):
                self._record_constant(op)
            region.append(op)

    def _record_constant(self, op: ConstantLike) -> bool:
        """Record an integer or bool. Returns whether the constant is one."""
        t = op.result.type
        if not isinstance(t, DType) or t.is_float:
            return False
        self.constants[op.result] = op.value
        return True

    def _copies(
        self, loop: LoopLike, positions: range, mapping: dict[Value, Value], region: Region
    ) -> list[Value]:
        """Append one copy of the body for each position. Returns the final carried values."""
        carried = [mapping.get(v, v) for v in loop.initial]
        (index,) = (a for a in loop.body.args if a not in loop.arguments)
        for position in positions:
            mapping.update(zip(loop.arguments, carried, strict=True))
            mapping[index] = self._constant(region, index.type, position, loop)
            self._copy(loop.body.ops[:-1], mapping, region)
            carried = [mapping.get(v, v) for v in loop.body.yielded]
        return carried

    def _constant(self, region: Region, t: Any, number: Any, op: Op) -> Value:
        """A constant that ops which are appended to a region may read."""
        key = region, t, number
        value = self.constants_of.get(key)
        if value is None:
            value = Const([], [t], {"value": number, "type": t}, (), op.loc).result
            self.constants_of[key], self.constants[value], self.unplaced[value] = value, number, region
        return value

    def _placed(self, values: list[Value]) -> list[Value]:
        """The values, after those that are unplaced constants are appended to their region. The region does not contain
        the op that reads them yet, nor the op around it."""
        unplaced = self.unplaced
        if not unplaced.keys().isdisjoint(values):
            for v in values:
                if v in unplaced and isinstance(v.owner, Op):
                    unplaced.pop(v).append(v.owner)
        return values

    def _copy(self, ops: list[Op], mapping: dict[Value, Value], region: Region) -> None:
        constants = self.constants
        for op in ops:
            operands = [mapping.get(v, v) for v in op.operands]
            if not operands:
                if isinstance(op, ConstantLike) and self._record_constant(op):
                    mapping[op.result] = self._constant(region, op.result.type, op.value, op)
                    continue
            elif operands[0] in constants and constants.keys() >= {*operands}:
                number = self._number(op, operands)
                if number is not None:
                    mapping[op.result] = self._constant(region, op.result.type, number, op)
                    continue
            positions = op.unrolled if op.regions and isinstance(op, LoopLike) else None
            if positions is not None and isinstance(op, LoopLike):
                final = self._copies(op, positions, mapping, region)
                mapping.update(zip(op.results, final, strict=True))
                continue
            selected = self._selected(op, mapping) if op.regions else None
            if selected is None:
                region.append(self._cloned(op, operands, mapping))
                continue
            self._copy(selected.ops[:-1], mapping, region)
            yielded = [mapping.get(v, v) for v in selected.yielded]
            mapping.update(zip(op.results, yielded, strict=True))

    def _selected(self, op: Op, mapping: dict[Value, Value]) -> Region | None:
        """The alternative that a branch on a constant takes; None for other ops."""
        conditions = op.control_operands if isinstance(op, BranchLike) else []
        known = [self.constants.get(mapping.get(v, v)) for v in conditions]
        if not isinstance(op, BranchLike) or len(known) != 1 or known[0] is None:
            return None
        return op.alternatives[0 if known[0] else 1]

    def _cloned(self, op: Op, operands: list[Value], mapping: dict[Value, Value]) -> Op:
        """A copy of an op with other operands, whose regions are copied likewise."""
        inherit = self.heirs.inherit
        regions: list[Region] = []
        for region in op.regions:
            inner = Region([arg.type for arg in region.args])
            for old, new in zip(region.args, inner.args, strict=True):
                new.name, mapping[old] = old.name, new
                inherit(new, old)
            self._copy(region.ops[:-1], mapping, inner)
            inner.append(clone_op(region.terminator, mapping))
            self._placed(inner.yielded)
            regions.append(inner)
        result = op.copy(self._placed(operands), regions)
        if regions:
            self.heirs.inherit_op(result, op)
        for old, new in zip(op.results, result.results, strict=True):
            mapping[old] = new
            inherit(new, old)
        return result

    def _number(self, op: Op, operands: list[Value]) -> Any:
        """The result of arithmetic of constants; None for other ops."""
        reference = _reference(type(op))
        t = op.results[0].type if len(op.results) == 1 else None
        if op.regions or not isinstance(t, DType) or t.is_float or reference is None:
            return None
        numbers = [self.constants[v] for v in operands]
        types = [v.type for v in operands]
        key = (*op.identity(), t, *numbers, *types)
        if key not in self.known:
            arguments = [
                np.array([number], to_numpy(t))
                for number, t in zip(numbers, types, strict=True)
                if isinstance(t, DType)
            ]
            # The op keeps the objects alive whose identities are in the key.
            self.known[key] = op, reference(op.attrs, *arguments)[0].item()
        return self.known[key][1]


@cache
def _reference(kind: type[Op]) -> Any:
    """The function that computes the result of ops of a class from constants; None if there is none."""
    if kind.COOPERATIVE or kind.VARYING or not kind.PURE:
        return None
    return getattr(kind, "ref", None)
