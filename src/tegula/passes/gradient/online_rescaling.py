"""Rewrites loops that rescale sums while a maximum grows, as online softmax does, to loops that only add, before they
are differentiated.

A loop carries a gauge m, and sums that each iteration multiplies by a power of m - m'. If no result of the loop changes
when m is shifted (`weights.py`), the derivative by m is 0, and the sums are equal to the sums of a loop in which m has
the same value in all iterations, here the last value. The new loop only adds, so its adjoint needs no carried
values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tegula.dataclass import dataclass, field
from tegula.ir import ConstantLike, Kernel, LoopLike, MatmulLike, Op, Region, Value
from tegula.ir.rewrite import clone_op, insert_after, replace, uses
from tegula.ops.base import element
from tegula.ops.control import Yield, counted
from tegula.ops.indexing import KernelBuilder
from tegula.ops.scalar import Add
from tegula.ops.tile import TileFull, TileMap
from tegula.passes.gradient.weights import AFTER, BEFORE, TOLERANCE, Change, NoWeight, Weight, Weights
from tegula.passes.simplify import FOLDED
from tegula.types import BufType, DType, TileType, float64, scalar_of, to_numpy

FLOAT64_TOLERANCE = 1e-12
"""The relative error of the weights of a gauge of type float64."""


@dataclass(slots=True)
class PlainSums:
    """The loops that only add. `results`: their results, each with the value that the original loop computes for it.
    `constants`: the gauges, whose derivative is 0."""

    results: dict[Value, Value] = field(default_factory=dict[Value, Value])
    constants: set[Value] = field(default_factory=set[Value])


def remove_rescaling(kernel: Kernel) -> PlainSums:
    """Add a loop that only adds after each loop with a gauge, and replace the uses of the results, in place."""
    plain_sums = PlainSums()
    loops = [op for op in kernel.walk() if isinstance(op, LoopLike)]
    while loops:
        loop = loops.pop()
        if counted(loop) and _may_run_twice(loop):
            candidates = (
                _plain_loop(kernel, loop, slot, plain_sums)
                for slot, v in enumerate(loop.arguments)
                if _is_float(v)
            )
            sums = next((sums for sums in candidates if sums is not None), None)
            loops += [] if sums is None else [sums]
    return plain_sums


def _may_run_twice(loop: Op) -> bool:
    """Whether a loop only reads arrays, and has neither tile objects nor operands with effects."""
    reads = all(e.kind == "read" and e.value is not None for op in loop.walk() for e in op.effects())
    return reads and not any(isinstance(v.type, BufType) for op in loop.walk() for v in op.operands)


def _is_float(value: Value) -> bool:
    t = value.type.dtype if isinstance(value.type, TileType) else value.type
    return isinstance(t, DType) and t.is_float


def _plain_loop(kernel: Kernel, loop: Any, slot: int, plain_sums: PlainSums) -> LoopLike | None:
    """The loop that only adds to the sums of a loop whose gauge is the carried value at `slot`; None if the value is
    not a gauge."""
    gauge, after = loop.arguments[slot], loop.body.yielded[slot]
    if after in loop.arguments or after.owner is not None and not isinstance(after.owner, Op):
        return None
    others = [k for k in range(len(loop.arguments)) if k != slot]
    dtype = gauge.type.dtype if isinstance(gauge.type, TileType) else gauge.type
    weights = Weights(FLOAT64_TOLERANCE if dtype == float64 else TOLERANCE)
    shape = gauge.type.shape if isinstance(gauge.type, TileType) else ()
    diagonal = frozenset((d, d) for d, n in enumerate(shape) if n > 1)
    weights.weight_of[gauge] = Weight(Change.SHIFTED, {(BEFORE, None): 1.0}, diagonal)
    weights.weight_of[after] = Weight(Change.SHIFTED, {(AFTER, None): 1.0}, diagonal)
    for k in others:
        weights.weight_of[loop.arguments[k]] = Weight(
            Change.SCALED, {(BEFORE, k): -1.0}, _varying_dims(loop.arguments[k], shape)
        )
    needed = _backward_slice(loop, [loop.body.yielded[k] for k in others], after)
    if after.owner in needed:
        return None
    try:
        for op in needed:
            weights.visit(op)
        for k in others:
            w = weights.of(loop.body.yielded[k])
            if w.kind is Change.SHIFTED:
                raise NoWeight
            if w.kind is not Change.ZERO:
                weights.equate(w.form, {(AFTER, k): -1.0})
                if weights.resolved(w.form) and w.positions != _varying_dims(loop.arguments[k], shape):
                    raise NoWeight
        scaled = [k for k in others if abs(weights.solved.get(k, 0.0)) > 0]
        if not scaled or any(_number(loop.initial[k]) != 0 for k in scaled):
            return None
        for k in others:
            weights.solved.setdefault(k, 0.0)
            factor = -weights.solved[k]
            weights.weight_of[loop.results[k]] = Weight(
                Change.SCALED,
                {(BEFORE, None): factor} if factor else {},
                _varying_dims(loop.results[k], shape),
            )
        weights.weight_of[loop.results[slot]] = Weight(Change.SHIFTED, {(BEFORE, None): 1.0}, diagonal)
        region = loop.parent
        for op in region.ops[region.ops.index(loop) + 1 :]:
            if op.results or not op.operands:
                weights.visit(op)
            else:
                for v in op.operands:
                    weights.unchanged(weights.of(v))
    except NoWeight:
        return None
    sums = _PlainLoopBuilder(loop, slot, others, weights, needed).loop()
    if not all(_only_adds(sums, others.index(k)) for k in scaled):
        return None
    insert_after(loop, sums)
    results = {loop.results[k]: r for k, r in zip(others, sums.results, strict=True)}
    replace(kernel.body, results)
    plain_sums.results |= {new: old for old, new in results.items()}
    plain_sums.constants.add(loop.results[slot])
    return sums


def _varying_dims(value: Value, gauge: Sequence[int]) -> frozenset[tuple[int, int]]:
    """The dimensions of a carried value along which a gauge of a shape varies: the dimensions at the same positions."""
    shape = value.type.shape if isinstance(value.type, TileType) else ()
    return frozenset((d, d) for d, n in enumerate(gauge) if n > 1 and d < len(shape) and shape[d] == n)


def _backward_slice(loop: Any, values: Sequence[Value], cut: Value) -> list[Op]:
    """The ops of the loop's body that the values depend on, in order, without the ops that only compute the value
    `cut`."""
    values_needed, ops = set(values) - {cut}, list[Op]()
    for op in reversed(loop.body.ops[:-1]):
        if any(r in values_needed for r in op.results):
            ops.append(op)
            values_needed |= {v for inner in op.walk() for v in inner.operands} - {cut}
    return ops[::-1]


class _PlainLoopBuilder:
    """Builds the loop without the gauge. `at_zero`: values that depend on the gauge alone, if the gauge is 0; `fixed`:
    the values that do not depend on the gauge, because the gauge before and after an iteration is the same."""

    def __init__(
        self, loop: Any, slot: int, others: Sequence[int], weights: Weights, needed: Sequence[Op]
    ) -> None:
        self.old = loop
        self.others = others
        self.weights = weights
        self.needed = needed
        self.mapping: dict[Value, Value] = {}
        after = loop.body.yielded[slot]
        self.mapping |= dict.fromkeys((loop.arguments[slot], after), loop.results[slot])
        self.at_zero: dict[Value, Any] = dict.fromkeys((loop.arguments[slot], after), 0.0)
        self.fixed: dict[Value, Any] = {}

    def loop(self) -> Any:
        """The new loop, which is not in a region yet."""
        old = self.old
        region = Region([old.index.type, *(old.arguments[k].type for k in self.others)])
        index, *carried = region.args
        self.mapping[old.index] = index
        for k, argument in zip(self.others, carried, strict=True):
            self.mapping[old.arguments[k]] = argument
        b = KernelBuilder(region, old.loc)
        for op in self.needed:
            b.loc = op.loc
            self._copy_op(b, op)
        b.emit(Yield, [self._new_value(b, old.body.yielded[k]) for k in self.others])
        operands = [*old.bounds, *(old.initial[k] for k in self.others)]
        types = [old.results[k].type for k in self.others]
        loop = type(old)(operands, types, old.attrs, [region], old.loc)
        for k, result in zip(self.others, loop.results, strict=True):
            result.name = old.results[k].name
        return loop

    def _copy_op(self, b: KernelBuilder, op: Op) -> None:
        """Copy an op, unless its result is a number."""
        if self._fold(op):
            return
        if op.NAME == "tile.map" and any(v in self.at_zero for v in op.operands):
            self._copy_map(b, op)
            return
        for v in op.operands:
            self._new_value(b, v)
        b.region.append(clone_op(op, self.mapping))

    def _fold(self, op: Op) -> bool:
        """Record the number of an op's result if the result depends on the gauge alone, and return whether it does."""
        if (
            not op.operands
            or len(op.results) != 1
            or any(v not in self.at_zero and _number(v) is None for v in op.operands)
        ):
            return False
        if not any(v in self.at_zero for v in op.operands):
            return False
        operands = [self.at_zero[v] if v in self.at_zero else _number(v) for v in op.operands]
        value = operands[0] if op.NAME in DATA_MOVEMENT else _evaluate(op, operands)
        if value is None:
            return False
        self.at_zero[op.result] = value
        if self.weights.follows(self.weights.of(op.result).form):
            return False
        self.fixed[op.result] = value
        return True

    def _copy_map(self, b: KernelBuilder, op: Op) -> None:
        """Copy a map of which some inputs are numbers, or depend on the gauge alone."""
        body = op.regions[0]
        for value, argument in zip(op.operands, body.args, strict=True):
            if value in self.at_zero:
                self.at_zero[argument] = self.at_zero[value]
            if value in self.fixed:
                self.fixed[argument] = self.fixed[value]
        kept_inputs = [(v, e) for v, e in zip(op.operands, body.args, strict=True) if e not in self.fixed]
        region = Region([e.type for _, e in kept_inputs])
        self.mapping.update(zip((e for _, e in kept_inputs), region.args, strict=True))
        inner = KernelBuilder(region, op.loc)
        for o in body.ops[:-1]:
            self._copy_element_op(inner, o)
        result = body.yielded[0]
        computed = self._new_value(inner, result)
        inputs = dict(zip(region.args, (self._new_value(b, v) for v, _ in kept_inputs), strict=True))
        if computed in inputs and inputs[computed].type == op.result.type:
            self.mapping[op.result] = inputs[computed]
            return
        inner.emit(Yield, [computed])
        copy = TileMap([*inputs.values()], [op.result.type], op.attrs, [region], op.loc)
        b.region.append(copy)
        copy.result.name = op.result.name
        self.mapping[op.result] = copy.result

    def _copy_element_op(self, b: KernelBuilder, op: Op) -> None:
        """Copy an op of a map's function, without multiplications by 1."""
        if self._fold(op):
            return
        if op.NAME in ("mul", "fma"):
            first, second, *rest = op.operands
            for term, second_factor in ((first, second), (second, first)):
                if self.fixed.get(term) == 1.0:
                    terms = [self._new_value(b, v) for v in (second_factor, *rest)]
                    self.mapping[op.result] = b.one(Add, terms) if rest else terms[0]
                    return
        for v in op.operands:
            self._new_value(b, v)
        b.region.append(clone_op(op, self.mapping))

    def _new_value(self, b: KernelBuilder, old: Value) -> Value:
        """The new value for an old one."""
        if old in self.fixed and old not in self.mapping:
            t = old.type
            if isinstance(t, TileType):
                number = b.const(self.fixed[old], scalar_of(t.dtype))
                self.mapping[old] = b.one(TileFull, [number], {"shape": t.shape})
            else:
                self.mapping[old] = b.const(self.fixed[old], element(t))
        return self.mapping.get(old, old)


DATA_MOVEMENT = ("tile.broadcast", "tile.permute", "tile.reshape", "tile.full")
"""Ops whose result has the elements of the operand."""


def _number(value: Value) -> Any:
    """The number that a value, or each element of a tile, equals; None if unknown."""
    owner = value.owner
    while isinstance(owner, Op) and owner.NAME == "tile.full":
        (number,) = owner.operands
        owner = number.owner
    return owner.value if isinstance(owner, ConstantLike) else None


def _evaluate(op: Op, operands: Sequence[Any]) -> Any:
    """The number that an op computes from numbers; None if the op does not compute elements."""
    if op.NAME in ("tile.map", "call"):
        numbers: dict[Value, Any] = dict(zip(op.regions[0].args, operands, strict=True))
        for o in op.regions[0].ops[:-1]:
            value = o.value if isinstance(o, ConstantLike) else _evaluate(o, [numbers[v] for v in o.operands])
            if value is None:
                return None
            numbers[o.results[0]] = value
        return numbers[op.regions[0].yielded[0]]
    if not isinstance(op, FOLDED):
        return None
    arrays = [
        np.array([x], to_numpy(scalar_of(element(v.type))))
        for x, v in zip(operands, op.operands, strict=True)
    ]
    return op.ref(op.attrs, *arrays)[0].item()


def _only_adds(loop: Any, slot: int) -> bool:
    """Whether a loop changes a carried value only by additions."""
    users = uses(loop.body)
    value = loop.body.yielded[slot]
    while value is not loop.arguments[slot]:
        op = value.owner
        if not isinstance(op, Op) or len(users[value]) != 1:
            return False
        terms = _terms(op)
        carried = [v for v in terms if _is_sum_with(v, loop.arguments[slot])]
        if len(carried) != 1:
            return False
        value = carried[0]
    return len(users[value]) == 1


def _terms(op: Op) -> list[Value]:
    """The operands that an op adds to a value that does not depend on them."""
    if isinstance(op, MatmulLike):
        return [op.c] if _number(op.beta) == 1 else []
    if op.NAME == "add":
        return [*op.operands]
    if op.NAME != "tile.map":
        return []
    body = op.regions[0]
    last = body.yielded[0].owner
    terms = [*last.operands] if isinstance(last, Op) and last.NAME == "add" else []
    if isinstance(last, Op) and last.NAME == "fma":
        *_, added = last.operands
        terms = [added]
    use_map = uses(body)
    return [v for v, e in zip(op.operands, body.args, strict=True) if e in terms and len(use_map[e]) == 1]


def _is_sum_with(value: Value, argument: Value) -> bool:
    """Whether a value is the carried value, possibly after additions."""
    while value is not argument:
        op = value.owner
        terms = _terms(op) if isinstance(op, Op) else []
        candidates = [v for v in terms if v is argument or isinstance(v.owner, Op) and _terms(v.owner)]
        if len(candidates) != 1:
            return False
        value = candidates[0]
    return True
