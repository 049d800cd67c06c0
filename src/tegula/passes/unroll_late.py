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
    ConstantTable,
    Kernel,
    LoopLike,
    Op,
    Region,
    Value,
)
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
    """Unrolls loops. A `mapping` has the copies of values: a value of the kernel for each value of a copied loop.

    `replaced`: the mapping of values outside of these loops, the results of unrolled loops. `numbers`: integers and
    bools that are constants, values of the kernel and values of loops; `unmapped`: the latter, whose copies are made
    when an op reads them. `constants_of`: the constants of each region under construction, by type and number.
    `unplaced`: values that no op reads so far, with the region that their ops belong to, and are not in yet.
    `arithmetic`: what `_arithmetic` returns, by op; `known`: the same, by class, types and attributes. `parts`: the
    components of vectors; `made`: unplaced vectors, with the op that replaces a component in each; `followed`: whether
    components of a type of vectors are followed."""

    def __init__(self, context: Compilation, subscripted: set[Type]) -> None:
        self.heirs = _Heirs(context)
        self.replaced: dict[Value, Value] = {}
        self.numbers: dict[Value, Any] = {}
        self.unmapped: set[Value] = set()
        self.constants_of: dict[tuple[Region, DType, Any], Value] = {}
        self.unplaced: dict[Value, Region] = {}
        self.arithmetic: dict[Op, _Arithmetic | None] = {}
        self.known: dict[tuple[Any, ...], _Arithmetic] = {}
        self.parts: dict[Value, list[Value]] = {}
        self.made: dict[Value, Op] = {}
        self.followed: dict[Type, bool] = dict.fromkeys(subscripted, False)

    def region(self, region: Region) -> None:
        """Unroll the loops of a region."""
        before, region.ops = region.ops, []
        for op in before:
            if self.replaced:
                op.substitute(self.replaced)
            positions = op.unrolled if isinstance(op, LoopLike) else None
            if positions is not None and isinstance(op, LoopLike):
                for result, (number, value) in zip(
                    op.results, self._copies(op, positions, self.replaced, region), strict=True
                ):
                    if number is not None:
                        self.numbers[result] = number
                        value = self._constant(region, result.type, number, op)
                    self.replaced[result] = value
                continue
            if isinstance(op, ComponentAccess) and self._follows(op, self.replaced, region):
                continue
            self._placed(op.operands)
            for nested in op.regions:
                self.region(nested)
            if isinstance(op, ConstantLike):
                if _is_integer(op.result.type):
                    self.numbers[op.result] = op.value
            elif isinstance(op, Composition):
                self._compose(op)
            region.append(op)

    # Values --------------------------------------------------------------------------------------------------------

    def _copied(self, value: Value, mapping: dict[Value, Value], region: Region, op: Op) -> Value:
        """The copy of a value that the copy of an op in a region reads."""
        if value in self.unmapped:
            return self._constant(region, value.type, self.numbers[value], op)
        return mapping.get(value, value)

    def _forget(self, value: Value) -> None:
        """Forget the number that a value of a loop was in another copy of the loop's body."""
        if value in self.numbers:
            del self.numbers[value]
            self.unmapped.discard(value)

    def _results(self, values: list[Value], mapping: dict[Value, Value]) -> list[tuple[Any, Value]]:
        """The numbers, or None, and the copies of values."""
        return [(self.numbers.get(v), mapping.get(v, v)) for v in values]

    def _assign(
        self, targets: list[Value], results: list[tuple[Any, Value]], mapping: dict[Value, Value]
    ) -> None:
        """Give values of a loop the numbers or the copies of other values."""
        for target, (number, value) in zip(targets, results, strict=True):
            if number is not None:
                self.numbers[target] = number
                self.unmapped.add(target)
            else:
                self._forget(target)
                mapping[target] = value

    def _constant(self, region: Region, t: Any, number: Any, op: Op) -> Value:
        """A constant that ops which are appended to a region may read."""
        key = region, t, number
        value = self.constants_of.get(key)
        if value is None:
            value = Const([], [t], {"value": number, "type": t}, (), op.loc).result
            self.constants_of[key], self.numbers[value], self.unplaced[value] = value, number, region
        return value

    def _placed(self, values: list[Value]) -> list[Value]:
        """The values, after those that are unplaced are made in their region. The region does not contain the op that
        reads them yet, nor the op around it."""
        unplaced = self.unplaced
        if not unplaced.keys().isdisjoint(values):
            for v in values:
                if v in unplaced:
                    region, owner = unplaced.pop(v), v.owner
                    region.append(owner if isinstance(owner, Op) else self._make(v))
        return values

    # Vectors -------------------------------------------------------------------------------------------------------

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

    def _follows(self, op: ComponentAccess, mapping: dict[Value, Value], region: Region) -> bool:
        """Whether an op accesses a known component of a vector, so that the op needs no copy."""
        composite, *others = op.operands
        composite = mapping.get(composite, composite)
        parts = self.parts.get(composite)
        if parts is None:
            return False
        numbers: list[Any] = [*map(self.numbers.get, others[1:] if op.REPLACES else others)]
        if None in numbers:
            return False
        position, result = op.position(numbers), op.result
        if position is None:
            mapping[result] = composite
        elif op.REPLACES:
            vector = mapping[result] = Value(result.type, None, result.name)
            parts = self.parts[vector] = parts.copy()
            parts[position] = self._copied(others[0], mapping, region, op)
            self.made[vector], self.unplaced[vector] = op, region
        else:
            part = mapping[result] = parts[position]
            self._forget(result)
            if part in self.numbers:
                self.numbers[result] = self.numbers[part]
        return True

    # Copies --------------------------------------------------------------------------------------------------------

    def _copies(
        self, loop: LoopLike, positions: range, mapping: dict[Value, Value], region: Region
    ) -> list[tuple[Any, Value]]:
        """Append one copy of the body for each position. Returns the numbers and the copies of the final carried
        values."""
        carried = self._results(loop.initial, mapping)
        (index,) = (a for a in loop.body.args if a not in loop.arguments)
        for position in positions:
            self._assign(loop.arguments, carried, mapping)
            self.numbers[index] = position
            self.unmapped.add(index)
            self._copy(loop.body.ops[:-1], mapping, region)
            carried = self._results(loop.body.yielded, mapping)
        return carried

    def _copy(self, ops: list[Op], mapping: dict[Value, Value], region: Region) -> None:
        for op in ops:
            if isinstance(op, ComponentAccess):
                if self._follows(op, mapping, region):
                    continue
            elif self._folds(op):
                continue
            positions = op.unrolled if op.regions and isinstance(op, LoopLike) else None
            if positions is not None and isinstance(op, LoopLike):
                self._assign(op.results, self._copies(op, positions, mapping, region), mapping)
                continue
            selected = self._selected(op) if op.regions else None
            if selected is None:
                region.append(self._cloned(op, mapping, region))
                continue
            self._copy(selected.ops[:-1], mapping, region)
            self._assign(op.results, self._results(selected.yielded, mapping), mapping)

    def _selected(self, op: Op) -> Region | None:
        """The alternative that a branch on a constant takes; None for other ops."""
        known = [self.numbers.get(v) for v in op.control_operands] if isinstance(op, BranchLike) else []
        if not isinstance(op, BranchLike) or len(known) != 1 or known[0] is None:
            return None
        return op.alternatives[0 if known[0] else 1]

    def _cloned(self, op: Op, mapping: dict[Value, Value], region: Region) -> Op:
        """A copy of an op with other operands, whose regions are copied likewise."""
        inherit = self.heirs.inherit
        operands = [self._copied(v, mapping, region, op) for v in op.operands]
        regions: list[Region] = []
        for body in op.regions:
            inner = Region([arg.type for arg in body.args])
            for old, new in zip(body.args, inner.args, strict=True):
                self._forget(old)
                new.name, mapping[old] = old.name, new
                inherit(new, old)
            self._copy(body.ops[:-1], mapping, inner)
            yielded = [self._copied(v, mapping, inner, op) for v in body.yielded]
            inner.append(body.terminator.copy(self._placed(yielded), []))
            regions.append(inner)
        if not self.unplaced.keys().isdisjoint(operands):
            self._placed(operands)
        result = op.copy(operands, regions)
        if regions:
            self.heirs.inherit_op(result, op)
        for old, new in zip(op.results, result.results, strict=True):
            self._forget(old)
            mapping[old] = new
            inherit(new, old)
        if isinstance(result, Composition):
            self._compose(result)
        return result

    # Arithmetic ----------------------------------------------------------------------------------------------------

    def _folds(self, op: Op) -> bool:
        """Whether an op is a constant, or arithmetic of constants, so that its result is a number."""
        if op not in self.arithmetic:
            self.arithmetic[op] = self._arithmetic(op)
        arithmetic = self.arithmetic[op]
        if arithmetic is None:
            return False
        numbers = tuple(map(self.numbers.get, op.operands))
        if None in numbers:
            return False
        known, compute = arithmetic
        if numbers not in known:
            known[numbers] = compute(numbers)
        result = op.results[0]
        self.numbers[result] = known[numbers]
        self.unmapped.add(result)
        return True

    def _arithmetic(self, op: Op) -> _Arithmetic | None:
        """The results of an op so far, by the operands, and the function that computes them; None for ops that are no
        arithmetic of integers and bools. Ops of one class and equal types and attributes share the results."""
        if len(op.results) != 1 or op.regions or not _is_integer(op.results[0].type):
            return None
        if isinstance(op, ConstantLike):
            return {(): op.value}, _unknown
        if isinstance(op, ConstantTable):
            return self.known.setdefault(op.identity(), ({}, op.read))
        reference = _reference(type(op))
        if reference is None or not op.operands:
            return None
        types = [v.type for v in op.operands]
        numpy_types = [to_numpy(t) for t in types if isinstance(t, DType)]

        def compute(numbers: tuple[Any, ...]) -> Any:
            arguments = [np.array([n], t) for n, t in zip(numbers, numpy_types, strict=True)]
            return reference(op.attrs, *arguments)[0].item()

        # The op keeps the objects alive whose identities are in the key.
        return self.known.setdefault((*op.identity(), op.results[0].type, *types), ({}, compute))


_Arithmetic = tuple[dict[tuple[Any, ...], Any], Callable[[tuple[Any, ...]], Any]]


def _unknown(numbers: tuple[Any, ...]) -> Any:
    raise AssertionError("a constant takes no operands")


def _is_integer(t: Type) -> bool:
    return isinstance(t, DType) and not t.is_float


@cache
def _reference(kind: type[Op]) -> Any:
    """The function that computes the result of ops of a class from constants; None if there is none."""
    if kind.COOPERATIVE or kind.VARYING or not kind.PURE:
        return None
    return getattr(kind, "ref", None)
