"""Unrolls loops over `tg.unrolled` late, so that the passes before work on a single body.

In each copy of the body the index is a constant, integer arithmetic on constants is folded, and only the taken
alternative of a branch on a constant condition remains."""

from __future__ import annotations

from typing import Any

import numpy as np

from tegula.ir import BranchLike, ConstantLike, Kernel, LoopLike, Op, Region, Value
from tegula.ir.rewrite import clone_op
from tegula.ops.scalar import Const
from tegula.passes.runner import Compilation, GpuCompilation
from tegula.types import DType, to_numpy


def unroll_late(kernel: Kernel, context: Compilation) -> None:
    """Rewrite the kernel in place; copies inherit the analysis results of the values from which they are copied."""
    unroller = _Unroller()
    unroller.region(kernel.body)
    _inherit(unroller, context)


def _inherit(unroller: _Unroller, context: Compilation) -> None:
    """Copy the divergence, uniformity, layouts and shared memory allocations of the originals to the copies."""
    divergent, original_values = context.uniformity.divergent, unroller.original_values
    divergent.update(copy for copy, op in unroller.original_ops.items() if op in divergent)
    for copy, value in original_values.items():
        while value in original_values:
            value = original_values[value]
        if context.uniformity.varying(value):
            context.uniformity.values.add(copy)
        if isinstance(context, GpuCompilation):
            if value in context.layouts:
                context.layouts[copy] = context.layouts[value]
            if value in context.shared.allocations:
                context.shared.allocations[copy] = context.shared.allocations[value]


class _Unroller:
    """Unrolls loops. `original_values`, `original_ops`: the original of each copied value, and of each copied op with
    regions. `replaced`: results of unrolled loops. `constants`: integers and bools that are constants."""

    def __init__(self) -> None:
        self.original_values: dict[Value, Value] = {}
        self.original_ops: dict[Op, Op] = {}
        self.replaced: dict[Value, Value] = {}
        self.constants: dict[Value, Any] = {}

    def region(self, region: Region) -> None:
        """Unroll the loops of a region, inner loops first."""
        before, region.ops = region.ops, []
        for op in before:
            op.map_operands(lambda v: self.replaced.get(v, v))
            for nested in op.regions:
                self.region(nested)
            self._record_constant(op)
            positions = op.unrolled if isinstance(op, LoopLike) else None
            if positions is None or not isinstance(op, LoopLike):
                region.append(op)
            else:
                self.replaced.update(zip(op.results, self._copies(op, positions, region), strict=True))

    def _record_constant(self, op: Op) -> None:
        if isinstance(op, ConstantLike) and isinstance(op.result.type, DType) and not op.result.type.is_float:
            self.constants[op.result] = op.value

    def _copies(self, loop: LoopLike, positions: range, region: Region) -> list[Value]:
        """Append one copy of the body for each position. Returns the final carried values."""
        carried = [*loop.initial]
        (index,) = (a for a in loop.body.args if a not in loop.arguments)
        for position in positions:
            mapping = dict(zip(loop.arguments, carried, strict=True))
            mapping[index] = self._constant(region, index.type, position, loop)
            self._copy(loop.body.ops[:-1], mapping, region)
            carried = [mapping.get(v, v) for v in loop.body.yielded]
        return carried

    def _constant(self, region: Region, t: Any, number: Any, op: Op) -> Value:
        constant = Const.typed([], {"value": number, "type": t}, loc=op.loc)
        region.append(constant)
        self.constants[constant.result] = number
        return constant.result

    def _copy(self, ops: list[Op], mapping: dict[Value, Value], region: Region) -> None:
        constants = self.constants
        for op in ops:
            operands = [mapping.get(v, v) for v in op.operands]
            if all(v in constants for v in operands):
                number = self._number(op, operands)
                if number is not None:
                    mapping[op.result] = self._constant(region, op.result.type, number, op)
                    continue
            if isinstance(op, BranchLike) and all(
                mapping.get(v, v) in constants for v in op.control_operands
            ):
                (condition,) = (self.constants[mapping.get(v, v)] for v in op.control_operands)
                selected = op.alternatives[0 if condition else 1]
                self._copy(selected.ops[:-1], mapping, region)
                yielded = [mapping.get(v, v) for v in selected.yielded]
                mapping.update(zip(op.results, yielded, strict=True))
                continue
            region.append(self._cloned(op, operands, mapping))

    def _cloned(self, op: Op, operands: list[Value], mapping: dict[Value, Value]) -> Op:
        """A copy of an op with other operands, whose regions are copied likewise."""
        regions: list[Region] = []
        for region in op.regions:
            inner = Region([arg.type for arg in region.args])
            for old, new in zip(region.args, inner.args, strict=True):
                new.name, mapping[old] = old.name, new
                self.original_values[new] = old
            self._copy(region.ops[:-1], mapping, inner)
            inner.append(clone_op(region.terminator, mapping))
            regions.append(inner)
        result = op.copy(operands, regions)
        if regions:
            self.original_ops[result] = self.original_ops.get(op, op)
        for old, new in zip(op.results, result.results, strict=True):
            mapping[old] = new
            self.original_values[new] = old
        self._record_constant(result)
        return result

    def _number(self, op: Op, operands: list[Value]) -> Any:
        """The result of arithmetic of constants; None for other ops."""
        t = op.results[0].type if len(op.results) == 1 else None
        if op.regions or op.COOPERATIVE or op.VARYING or not op.PURE or not operands:
            return None
        if not isinstance(t, DType) or t.is_float:
            return None
        reference = getattr(type(op), "ref", None)
        if reference is None:
            return None
        arguments = [
            np.array([self.constants[v]], to_numpy(v.type)) for v in operands if isinstance(v.type, DType)
        ]
        return reference(op.attrs, *arguments)[0].item()
