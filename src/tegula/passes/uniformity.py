"""Which values are the same in all lanes of a block, and whether cooperative ops are reached by all of them."""

from __future__ import annotations

from collections.abc import Iterator

from tegula.dataclass import dataclass, field
from tegula.errors import CompileError, CooperativeAfterReturn, DivergentCooperativeOp
from tegula.ir import Kernel, LaunchClass, Op, Region, Value
from tegula.ops.base import TileOp
from tegula.ops.control import For, If, While
from tegula.ops.lane import Tid
from tegula.ops.roles import Roles
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
        elif isinstance(op, Roles):
            for role in op.regions:
                changed |= _visit(role, known)
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


def in_divergent_code(region: Region, known: Uniformity, inside: bool = False) -> Iterator[Op]:
    """The ops that only some lanes of a block may reach."""
    for op in region.ops:
        if inside:
            yield op
        for nested in op.regions:
            yield from in_divergent_code(nested, known, inside or op in known.divergent)


def check_cooperation(kernel: Kernel, known: Uniformity) -> list[CompileError]:
    """Errors for cooperative ops that some lanes do not reach: one for each condition that parts the lanes."""
    found: dict[Op, list[Op]] = {}
    _check(kernel.body, known, None, found)
    returns: dict[Location | None, list[tuple[Op, Op]]] = {}
    errors: list[CompileError] = []
    for diverged, ops in found.items():
        if "after_return" in diverged.attrs:
            returns.setdefault(diverged.attrs["after_return"], []).extend((op, diverged) for op in ops)
        else:
            errors.append(_divergence(ops, diverged, known))
    errors += [_after_return(at, pairs, known) for at, pairs in returns.items()]
    return errors


def _check(region: Region, known: Uniformity, diverged: Op | None, found: dict[Op, list[Op]]) -> None:
    for op in region.ops:
        assert isinstance(op, TileOp)
        if diverged is not None and op.COOPERATIVE:
            found.setdefault(diverged, []).append(op)
        if isinstance(op, CONTROL):
            inner = op if op in known.divergent and diverged is None else diverged
            for nested in op.regions:
                _check(nested, known, inner, found)
        elif isinstance(op, Roles):
            for role in op.regions:
                _check(role, known, diverged, found)


Notes = list[tuple[Location, str]]


def _divergence(ops: list[Op], condition: Op, known: Uniformity) -> CompileError:
    first, *others = _in_source_order(ops, [condition])
    notes: Notes = [(condition.loc, "this condition differs between threads of a block")]
    if isinstance(condition, For):
        notes = [(condition.loc, "this range differs between threads of a block")]
    notes += _origin(_deciding(condition), known)
    return DivergentCooperativeOp(
        first.loc, op=_called(first), notes=notes + _also(others), help=_divergence_help(condition)
    )


def _divergence_help(condition: Op) -> str:
    if isinstance(condition, If):
        return "call it outside the if and use its result inside; values can be chosen with tg.where"
    return "loop as often in every thread, for example up to the largest count, and mask the values with tg.where"


def _after_return(at: Location | None, pairs: list[tuple[Op, Op]], known: Uniformity) -> CompileError:
    first, *others = _in_source_order([op for op, _ in pairs], [])
    notes: Notes = [(at, "some threads leave here")] if at is not None else []
    parted = next(condition for op, condition in pairs if op is first)
    notes += _origin(_deciding(parted), known)
    return CooperativeAfterReturn(first.loc, op=_called(first), notes=notes + _also(others))


def _called(op: Op) -> str:
    """What the user wrote to get the op."""
    return op.loc.subject or ("assigning a tile" if op.NAME.startswith("buf.") else op.NAME.replace(".", "_"))


def _in_source_order(ops: list[Op], conditions: list[Op]) -> list[Op]:
    """One op for each place. Those that hand tiles to a join, at the place of its condition, and those that only keep a
    tile under a name are left out where there are others."""
    places = {c.loc for c in conditions}
    written = [op for op in ops if op.loc not in places] or ops
    named = [op for op in written if op.loc.subject] or written
    first = {(op.loc.file, op.loc.line, op.loc.column): op for op in reversed(named)}
    return sorted(first.values(), key=lambda op: named.index(op))


def _also(others: list[Op]) -> Notes:
    """Cooperative ops that the same condition keeps threads from; the first few."""
    notes = [(op.loc, f"{_called(op)} is not reached by all threads either") for op in others[:SHOWN]]
    if len(others) > SHOWN:
        at, text = notes[-1]
        notes[-1] = (at, f"{text}, and {len(others) - SHOWN} more below")
    return notes


SHOWN = 3
"""How many more ops an error names."""


def _deciding(op: Op) -> list[Value]:
    if isinstance(op, While):
        return [op.regions[0].terminator.operands[0]]
    return list(op.operands[:3] if isinstance(op, For) else op.operands[:1])


def _origin(values: list[Value], known: Uniformity) -> Notes:
    """Where the difference between threads comes from."""
    seen: set[Value] = set()
    queue = [v for v in values if known.varying(v)]
    while queue:
        value = queue.pop(0)
        owner = value.owner
        if value in seen or not isinstance(owner, Op):
            continue
        seen.add(value)
        if isinstance(owner, Tid):
            dims = "1 dimension" if known.launch.ndim == 1 else f"{known.launch.ndim} dimensions"
            kind = f"a launch of {dims} with block_dim {known.launch.block_dim}"
            return [(owner.loc, f"in {kind}, this index differs between threads of a block")]
        if isinstance(owner, TileOp) and owner.VARYING:
            return [(owner.loc, f"{_called(owner)} differs between threads of a block")]
        queue += [v for v in _sources(value, owner) if known.varying(v)]
    return []


def _sources(value: Value, owner: Op) -> list[Value]:
    """What a value is computed from: also conditions and yields of the control flow that gives it."""
    if not isinstance(owner, CONTROL):
        return list(owner.operands)
    k = owner.results.index(value)
    ends = [r.terminator.operands for r in (owner.regions[1:] if isinstance(owner, While) else owner.regions)]
    return [*_deciding(owner), *(end[k] for end in ends)]
