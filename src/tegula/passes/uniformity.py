"""Uniformity analysis: which values are the same in all lanes of a block, and whether all lanes reach cooperative
ops."""

from __future__ import annotations

from typing import TypeGuard

from tegula.dataclass import dataclass, field
from tegula.errors import CompileError, CooperativeAfterReturn, DivergentCooperativeOp, raise_all
from tegula.ir import CallLike, Carrier, Kernel, LaunchClass, LoopLike, Op, Region, Value
from tegula.ops.control import For, If
from tegula.ops.lane import Tid
from tegula.ops.roles import Roles
from tegula.passes.runner import Compilation
from tegula.source import Location


@dataclass(slots=True)
class Uniformity:
    """The values that may differ between lanes, and the control flow ops whose condition may."""

    launch: LaunchClass
    values: set[Value] = field(default_factory=set[Value])
    divergent: set[Op] = field(default_factory=set[Op])

    def varying(self, value: Value) -> bool:
        """Whether a value differs between lanes."""
        return value in self.values

    def reached_by_some_lanes(self, op: Op) -> bool:
        """Whether possibly only some lanes of a block reach an op, because a condition around the op diverges."""
        while op.parent is not None and op.parent.parent is not None:
            op = op.parent.parent
            if op in self.divergent:
                return True
        return False


def analyse(kernel: Kernel) -> Uniformity:
    """The uniformity of a kernel's values: the least fixpoint over the lattice uniform < varying."""
    known = Uniformity(kernel.launch)
    _visit(kernel.body, known)
    return known


def analyse_lanes(kernel: Kernel, context: Compilation) -> None:
    """Set the compilation's uniformity."""
    context.uniformity = analyse(kernel)


def _visit(region: Region, known: Uniformity) -> None:
    """Find the varying values of a region, given those that are defined before."""
    varying = known.values
    for op in region.ops:
        if op.regions and isinstance(op, Carrier):
            _visit_control(op, known)
        elif op.regions and isinstance(op, Roles):
            for role in op.roles:
                _visit(role, known)
        elif op.regions and isinstance(op, CallLike):
            _visit_call(op, known)
        elif isinstance(op, Tid):
            uniform = known.launch.uniform
            varying.update(r for k, r in enumerate(op.results) if not uniform[k])
        elif op.VARYING or not (op.COOPERATIVE or varying.isdisjoint(op.operands)):
            varying.update(op.results)


def _visit_call(op: CallLike, known: Uniformity) -> None:
    """Mark the results of a call as varying if the values that its function yields are varying."""
    function = op.function
    known.values.update(a for a, v in zip(function.args, op.arguments, strict=True) if known.varying(v))
    _visit(function, known)
    known.values.update(r for r, v in zip(op.results, function.yielded, strict=True) if known.varying(v))


def _visit_control(op: Carrier, known: Uniformity) -> None:
    """Find the varying values of a branch or loop. The regions of a loop are visited again as long as an iteration
    passes more varying values to the next one."""
    is_loop = isinstance(op, LoopLike)
    if is_loop:
        _mark(op, known)
    while True:
        for region in op.regions:
            _visit(region, known)
        if not (_mark(op, known) and is_loop):
            return


def _mark(op: Carrier, known: Uniformity) -> bool:
    """Mark the values that a branch or loop defines as varying if their sources are. Returns whether more are."""
    varying, count = known.values, len(known.values)
    divergent = not varying.isdisjoint(op.control_operands)
    if divergent:
        known.divergent.add(op)
        if isinstance(op, For):
            varying.add(op.index)
    for item in op.carried:
        if divergent or not varying.isdisjoint(item.sources):
            varying.update(item.defined_values)
    return len(varying) > count


def begins_at_lane(op: Op, launch: LaunchClass) -> TypeGuard[For]:
    """Whether an op is a counted loop from the number of the lane in its block: the last component of the thread index,
    where the last dimension of the launch is a block."""
    if not (isinstance(op, For) and launch.last_is_block):
        return False
    index = op.start.owner
    return isinstance(index, Tid) and index.results.index(op.start) == launch.ndim - 1


def check_cooperation(kernel: Kernel, context: Compilation) -> None:
    """Errors for cooperative ops that some lanes do not reach: one for each divergent condition."""
    known = analyse(kernel)
    ops_of_condition: dict[Carrier, list[Op]] = {}
    _check(kernel.body, known, None, ops_of_condition)
    returns: dict[Location | None, list[tuple[Op, Carrier]]] = {}
    errors: list[CompileError] = []
    for diverged, ops in ops_of_condition.items():
        if "after_return" in diverged.attrs:
            returns.setdefault(diverged.after_return, []).extend((op, diverged) for op in ops)
        else:
            errors.append(_divergence(ops, diverged, known))
    errors += [_after_return(at, ops_and_conditions, known) for at, ops_and_conditions in returns.items()]
    raise_all(errors)


def _check(
    region: Region, known: Uniformity, diverged: Carrier | None, matches: dict[Carrier, list[Op]]
) -> None:
    for op in region.ops:
        if diverged is not None and op.COOPERATIVE:
            matches.setdefault(diverged, []).append(op)
        if isinstance(op, Carrier):
            inner = op if op in known.divergent and diverged is None else diverged
            for nested in op.regions:
                _check(nested, known, inner, matches)
        elif isinstance(op, Roles):
            for role in op.roles:
                _check(role, known, diverged, matches)
        elif isinstance(op, CallLike) and not (diverged is not None and op.COOPERATIVE):
            _check(op.function, known, diverged, matches)


Notes = list[tuple[Location, str]]


def _divergence(ops: list[Op], condition: Carrier, known: Uniformity) -> CompileError:
    first, *others = _in_source_order(ops, [condition])
    notes: Notes = [(condition.loc, "this condition differs between threads of a block")]
    if isinstance(condition, For):
        notes = [(condition.loc, "this range differs between threads of a block")]
    notes += _origin(condition.control_operands, known)
    return DivergentCooperativeOp(
        first.loc,
        op=_source_name(first),
        notes=notes + _notes_on_others(others),
        help=_divergence_help(condition),
    )


def _divergence_help(condition: Op) -> str:
    if isinstance(condition, If):
        return "move the call out of the if and use its result inside; select values with tg.where"
    return "run the largest number of iterations in every thread, and mask the values with tg.where"


def _after_return(at: Location | None, pairs: list[tuple[Op, Carrier]], known: Uniformity) -> CompileError:
    first, *others = _in_source_order([op for op, _ in pairs], [])
    notes: Notes = [(at, "some threads return here")] if at is not None else []
    divergent = next(condition for op, condition in pairs if op is first)
    notes += _origin(divergent.control_operands, known)
    return CooperativeAfterReturn(first.loc, op=_source_name(first), notes=notes + _notes_on_others(others))


def _source_name(op: Op) -> str:
    """The name in the source code of the operation that an op comes from."""
    return op.loc.subject or ("assigning a tile" if op.NAME.startswith("buf.") else op.NAME.replace(".", "_"))


def _in_source_order(ops: list[Op], conditions: list[Op]) -> list[Op]:
    """The ops in source order, one for each location. Ops that pass tiles to a join (located at its condition), and ops
    that only assign a tile to a name, are omitted if there are others."""
    condition_locations = {c.loc for c in conditions}
    written = [op for op in ops if op.loc not in condition_locations] or ops
    named = [op for op in written if op.loc.subject] or written
    first = {(op.loc.file, op.loc.line, op.loc.column): op for op in reversed(named)}
    return sorted(first.values(), key=lambda op: named.index(op))


def _notes_on_others(others: list[Op]) -> Notes:
    """Notes for other cooperative ops in divergent code of the same condition."""
    notes = [
        (op.loc, f"{_source_name(op)} is not reached by all threads either") for op in others[:MAX_NOTES]
    ]
    if len(others) > MAX_NOTES:
        location, text = notes[-1]
        notes[-1] = (location, f"{text}, and {len(others) - MAX_NOTES} more below")
    return notes


MAX_NOTES = 3
"""The maximum number of further ops that an error names."""


def _origin(values: list[Value], known: Uniformity) -> Notes:
    """A note with the location where the values that differ between threads are computed."""
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
        if owner.VARYING:
            return [(owner.loc, f"{_source_name(owner)} differs between threads of a block")]
        queue += [v for v in _sources(value, owner) if known.varying(v)]
    return []


def _sources(value: Value, owner: Op) -> list[Value]:
    """The values from which a value is computed, including conditions and yields of the control flow op that defines
    it."""
    if not isinstance(owner, Carrier):
        return list(owner.operands)
    return [*owner.control_operands, *owner.carried[owner.results.index(value)].yielded]
