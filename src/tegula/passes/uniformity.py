"""Which values are the same in all lanes of a block, and whether cooperative ops are reached by all of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from tegula.errors import CompileError, CooperativeAfterReturn, DivergentCooperativeOp
from tegula.ir import Kernel, LaunchClass, Op, Region, Value
from tegula.ops.base import TileOp
from tegula.ops.control import For, If, While
from tegula.ops.lane import Tid
from tegula.source import Location

CONTROL = (If, For, While)


@dataclass(slots=True)
class Uniformity:
    """The values that may differ between lanes, and the control flow ops whose condition does."""

    launch: LaunchClass
    values: set[Value] = field(default_factory=set[Value])
    divergent: set[Op] = field(default_factory=set[Op])

    def varying(self, value: Value) -> bool:
        return value in self.values


def analyse(kernel: Kernel) -> Uniformity:
    """The least solution: values only become varying, so the walk is repeated until nothing changes."""
    known = Uniformity(kernel.launch)
    while _visit(kernel.body, known):
        pass
    return known


def _visit(region: Region, known: Uniformity) -> bool:
    changed = False
    for op in region.ops:
        if isinstance(op, CONTROL):
            changed |= _visit_control(op, known)
        else:
            changed |= _mark([r for r in op.results if _result_varies(op, r, known)], known)
    return changed


def _result_varies(op: Op, result: Value, known: Uniformity) -> bool:
    assert isinstance(op, TileOp)
    if isinstance(op, Tid):
        return not known.launch.uniform[op.results.index(result)]
    if op.VARYING:
        return True
    return not op.COOPERATIVE and any(known.varying(v) for v in op.operands)


def _mark(values: list[Value], known: Uniformity) -> bool:
    fresh = [v for v in values if v not in known.values]
    known.values.update(fresh)
    return bool(fresh)


def _visit_control(op: Op, known: Uniformity) -> bool:
    changed = False
    for region in op.regions:
        changed |= _visit(region, known)
    if isinstance(op, If):
        condition, carried, args = known.varying(op.operands[0]), [], []
        yields = [r.terminator.operands for r in op.regions]
    elif isinstance(op, For):
        condition, carried = any(known.varying(v) for v in op.operands[:3]), op.operands[3:]
        args = [op.regions[0].args[1:]]
        yields = [op.regions[0].terminator.operands]
        if condition:
            changed |= _mark([op.regions[0].args[0]], known)
    else:
        condition, carried = known.varying(op.regions[0].terminator.operands[0]), op.operands
        args = [r.args for r in op.regions]
        yields = [op.regions[1].terminator.operands]
    if condition and op not in known.divergent:
        known.divergent.add(op)
        changed = True
    for k, result in enumerate(op.results):
        sources = [y[k] for y in yields] + ([carried[k]] if carried else [])
        if condition or any(known.varying(v) for v in sources):
            changed |= _mark([result, *(a[k] for a in args)], known)
    return changed


def check_cooperation(kernel: Kernel, known: Uniformity) -> list[CompileError]:
    """Errors for cooperative ops that some lanes do not reach, in source order."""
    errors: list[CompileError] = []
    _check(kernel.body, known, None, errors)
    return errors


def _check(region: Region, known: Uniformity, diverged: Op | None, errors: list[CompileError]) -> None:
    for op in region.ops:
        assert isinstance(op, TileOp)
        if diverged is not None and op.COOPERATIVE:
            errors.append(_divergence(op, diverged, known))
        if isinstance(op, CONTROL):
            inner = op if op in known.divergent and diverged is None else diverged
            for nested in op.regions:
                _check(nested, known, inner, errors)


def _divergence(op: Op, condition: Op, known: Uniformity) -> CompileError:
    name = op.NAME.replace(".", "_")
    left: Location | None = condition.attrs.get("after_return")
    if left is not None:
        return CooperativeAfterReturn(op.loc, op=name, notes=[(left, "some threads leave here")])
    return DivergentCooperativeOp(
        op.loc,
        op=name,
        notes=[(condition.loc, f"this condition differs between threads in a {known.launch}")],
        help="make the condition the same for the whole block, or use tg.uniform(...) where it is",
    )
