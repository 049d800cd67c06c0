"""Unrolls loops over `tg.unrolled` late, so that the passes before work on a single body.

In each copy of the body the index is a constant, integer arithmetic on constants is folded, and only the taken
alternative of a branch on a constant condition remains. Components of vectors at constant indices are followed: a read
is the component, and a vector is made from its components where an op takes it as a whole."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from tegula.ir import (
    BranchLike,
    ComponentAccess,
    Composition,
    ConstantLike,
    Kernel,
    LoopLike,
    Op,
    Region,
    Value,
)
from tegula.ir.rewrite import clone_op
from tegula.ops.scalar import Const
from tegula.ops.vector import VecMake
from tegula.passes.runner import Compilation, GpuCompilation
from tegula.types import DType, MatType, Type, VecType, to_numpy

MIN_BITS = 32
"""The minimum bits of a component that is followed: several smaller ones may share a register."""


def unroll_late(kernel: Kernel, context: Compilation) -> None:
    """Rewrite the kernel in place; copies inherit the analysis results of the values from which they are copied."""
    if any(isinstance(op, LoopLike) and op.unrolled is not None for op in kernel.body.walk()):
        _Unroller(context, _subscripted_types(kernel)).region(kernel.body)


def _subscripted_types(kernel: Kernel) -> set[Type]:
    """The types of vectors with subscripts that are not constants when all loops are unrolled. Such vectors may be in
    memory, where a replacement of a component is a store."""
    known, types = set[Value](), set[Type]()
    for op in kernel.body.walk():
        if isinstance(op, ComponentAccess):
            if not known.issuperset(op.indices):
                types.add(op.composite.type)
        elif isinstance(op, LoopLike):
            if op.unrolled is not None:
                known.update(a for a in op.body.args if a not in op.arguments)
        elif isinstance(op, ConstantLike):
            known.add(op.result)
        elif op.operands and known.issuperset(op.operands) and _reference(type(op)) is not None:
            known.update(op.results)
    return types


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
    region yet. `arithmetic`: what `_arithmetic` returns, by op; `known`: the same, by class, types and attributes.
    `parts`: the components of vectors; `made`: vectors that no op reads as a whole so far, which are in `unplaced` too,
    with the op that replaces a component in each; `followed`: whether components of a type of vectors are followed."""

    def __init__(self, context: Compilation, subscripted: set[Type]) -> None:
        self.heirs = _Heirs(context)
        self.parts: dict[Value, list[Value]] = {}
        self.made: dict[Value, Op] = {}
        self.followed: dict[Type, bool] = dict.fromkeys(subscripted, False)
        self.replaced: dict[Value, Value] = {}
        self.constants: dict[Value, Any] = {}
        self.constants_of: dict[tuple[Region, DType, Any], Value] = {}
        self.unplaced: dict[Value, Region] = {}
        self.arithmetic: dict[Op, tuple[dict[Any, Any], Callable[[list[Any]], Any]] | None] = {}
        self.known: dict[tuple[Any, ...], tuple[dict[Any, Any], Callable[[list[Any]], Any]]] = {}

    def region(self, region: Region) -> None:
        """Unroll the loops of a region."""
        before, region.ops = region.ops, []
        for op in before:
            if self.replaced:
                op.substitute(self.replaced)
            positions = op.unrolled if isinstance(op, LoopLike) else None
            if positions is not None and isinstance(op, LoopLike):
                final = self._copies(op, positions, self.replaced, region)
                self.replaced.update(zip(op.results, final, strict=True))
                continue
            if isinstance(op, ComponentAccess) and self._follows(op, op.operands, self.replaced, region):
                continue
            self._placed(op.operands)
            for nested in op.regions:
                self.region(nested)
            if isinstance(op, ConstantLike):
                self._record_constant(op)
            elif isinstance(op, Composition):
                self._compose(op)
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
                if v in unplaced:
                    region, owner = unplaced.pop(v), v.owner
                    region.append(owner if isinstance(owner, Op) else self._make(v))
        return values

    def _make(self, vector: Value) -> Op:
        """The op that makes a vector from its components, in place of the op that replaces a component of another
        vector."""
        source = self.made.pop(vector)
        self.heirs.inherit(vector, source.result)
        make = VecMake(self._placed(self.parts[vector]), (), {"type": vector.type}, (), source.loc)
        make.results, vector.owner = [vector], make
        return make

    def _compose(self, op: Composition) -> None:
        """Record the components of a vector."""
        t = op.result.type
        if t not in self.followed:
            self.followed[t] = isinstance(t, VecType | MatType) and t.dtype.bits >= MIN_BITS
        parts = op.parts() if self.followed[t] else None
        if parts is not None:
            self.parts[op.result] = parts

    def _follows(
        self, op: ComponentAccess, operands: list[Value], mapping: dict[Value, Value], region: Region
    ) -> bool:
        """Whether an op accesses a known component of a vector, so that the op needs no copy."""
        parts = self.parts.get(operands[0])
        if parts is None:
            return False
        numbers: list[Any] = [*map(self.constants.get, operands[2 if op.REPLACES else 1 :])]
        if None in numbers:
            return False
        position = op.position(numbers)
        if position is None:
            mapping[op.result] = operands[0]
        elif op.REPLACES:
            vector = mapping[op.result] = Value(op.result.type, None, op.result.name)
            parts = self.parts[vector] = parts.copy()
            parts[position] = operands[1]
            self.made[vector], self.unplaced[vector] = op, region
        else:
            mapping[op.result] = parts[position]
        return True

    def _copy(self, ops: list[Op], mapping: dict[Value, Value], region: Region) -> None:
        constants = self.constants
        for op in ops:
            operands = [mapping.get(v, v) for v in op.operands]
            if isinstance(op, ComponentAccess):
                if self._follows(op, operands, mapping, region):
                    continue
            elif not operands:
                if isinstance(op, ConstantLike) and self._record_constant(op):
                    mapping[op.result] = self._constant(region, op.result.type, op.value, op)
                    continue
            elif operands[0] in constants:
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
            self._placed([mapping.get(v, v) for v in region.yielded])
            inner.append(clone_op(region.terminator, mapping))
            regions.append(inner)
        if not self.unplaced.keys().isdisjoint(operands):
            self._placed(operands)
        result = op.copy(operands, regions)
        if regions:
            self.heirs.inherit_op(result, op)
        for old, new in zip(op.results, result.results, strict=True):
            mapping[old] = new
            inherit(new, old)
        if isinstance(result, Composition):
            self._compose(result)
        return result

    def _number(self, op: Op, operands: list[Value]) -> Any:
        """The result of arithmetic of constants; None for other ops, and for other operands."""
        if op not in self.arithmetic:
            self.arithmetic[op] = self._arithmetic(op)
        arithmetic = self.arithmetic[op]
        if arithmetic is None:
            return None
        numbers = [*map(self.constants.get, operands)]
        if None in numbers:
            return None
        known, compute = arithmetic
        key = numbers[0] if len(numbers) == 1 else tuple(numbers)
        if key not in known:
            known[key] = compute(numbers)
        return known[key]

    def _arithmetic(self, op: Op) -> tuple[dict[Any, Any], Callable[[list[Any]], Any]] | None:
        """The results of an op so far, by its operands, and the function that computes them; None for ops that are no
        arithmetic of integers and bools. Ops of one class and equal types and attributes share the results."""
        reference = _reference(type(op))
        t = op.results[0].type if len(op.results) == 1 else None
        types = [v.type for v in op.operands]
        if op.regions or not isinstance(t, DType) or t.is_float or reference is None:
            return None
        numpy_types = [to_numpy(source) for source in types if isinstance(source, DType)]

        def compute(numbers: list[Any]) -> Any:
            arguments = [np.array([n], source) for n, source in zip(numbers, numpy_types, strict=True)]
            return reference(op.attrs, *arguments)[0].item()

        # The op keeps the objects alive whose identities are in the key.
        return self.known.setdefault((*op.identity(), t, *types), ({}, compute))


@cache
def _reference(kind: type[Op]) -> Any:
    """The function that computes the result of ops of a class from constants; None if there is none."""
    if kind.COOPERATIVE or kind.VARYING or not kind.PURE:
        return None
    return getattr(kind, "ref", None)
