"""Mutation operators on lowered schedules: each operator yields its mutants, which change the kernel in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from mutation.subjects import Subject
from tegula.dataclass import dataclass, field, replace
from tegula.ir import Kernel, Op, Region, Value
from tegula.ops import scalar as S
from tegula.ops.roles import Roles
from tegula.passes.place_shared import SharedAllocation
from tegula.types import BufType, MbarrierType, bool_, int32

EVENTS = (
    "mbarrier.wait", "mbarrier.arrive", "mbarrier.expect", "bulk.load", "bulk.wait", "bulk.store", "fence.async",
    "group.mma_wait", "barrier",
)  # fmt: skip
"""The ops of schedules."""
GROUPS = {
    "mbarrier.wait": "wait", "mbarrier.arrive": "arrive", "mbarrier.expect": "expect", "fence.async": "fence",
    "bulk.load": "copy", "bulk.wait": "commit", "group.mma_wait": "commit", "barrier": "barrier",
    "bulk.store": "store",
}  # fmt: skip


@dataclass(slots=True)
class Mutant:
    """A mutant. `operator`: its class, for the table; `change`: the change as text; `apply`: changes the kernel."""

    operator: str
    change: str
    apply: Callable[[], None]


def mutants(subject: Subject) -> Iterator[Mutant]:
    """All mutants of a kernel, in a fixed order."""
    for operator in (
        drops,
        doubles,
        moves,
        retargets,
        phases,
        stages,
        counts,
        bytes_,
        commits,
        addresses,
        budgets,
        loops,
    ):
        yield from operator(subject)


@dataclass(slots=True)
class SavedOps:
    """A copy of a kernel's ops, from which the kernel is restored."""

    kernel: Kernel
    allocations: dict[Value, SharedAllocation]
    regions: list[tuple[Region, list[Op]]] = field(default_factory=list)
    ops: list[tuple[Op, Region | None, list[Value], dict[str, Any]]] = field(default_factory=list)

    def restore(self, subject: Subject) -> None:
        for region, ops in self.regions:
            region.ops = list(ops)
        for op, parent, operands, attrs in self.ops:
            op.parent, op.operands, op.attrs = parent, list(operands), dict(attrs)
        subject.compilation.shared.allocations.clear()
        subject.compilation.shared.allocations.update(self.allocations)


def saved(subject: Subject) -> SavedOps:
    result = SavedOps(subject.kernel, dict(subject.compilation.shared.allocations))
    result.regions.append((subject.kernel.body, list(subject.kernel.body.ops)))
    for op in subject.kernel.walk():
        result.ops.append((op, op.parent, list(op.operands), dict(op.attrs)))
        result.regions += [(region, list(region.ops)) for region in op.regions]
    return result


# Sites ----------------------------------------------------------------------------------------------------------------


def _sites(subject: Subject, *names: str) -> list[Op]:
    """The ops with these names, except barriers that order a role's own memory, which are derived and not part of the
    proof."""
    sites = [op for op in subject.kernel.walk() if op.NAME in names]
    return [op for op in sites if op.NAME != "barrier" or "bulk" in op.attrs.get("reason", "")]


def _label(subject: Subject, op: Op) -> str:
    """A text with the op, its barrier or buffer, its role, and its number among equal ops."""
    about = " ".join(v.name or "?" for v in op.operands if isinstance(v.type, MbarrierType | BufType))
    equal_ops = [o for o in _sites(subject, op.NAME)]
    return f"{op.NAME} {about} #{equal_ops.index(op)}".replace("  ", " ")


def _ops(op: Op) -> list[Op]:
    assert op.parent is not None
    return op.parent.ops


def _before(op: Op, inserted: Op) -> Value:
    inserted.parent, inserted.loc = op.parent, op.loc
    _ops(op).insert(_ops(op).index(op), inserted)
    return inserted.result


def _const(op: Op, n: int) -> Value:
    return _before(op, S.Const([], [int32], {"type": int32, "value": n}))


def _barriers(subject: Subject) -> list[Value]:
    return [op.result for op in subject.kernel.walk() if op.NAME == "mbarrier.new"]


def _signed(n: int) -> str:
    return f"+{n}" if n > 0 else str(n)


# Drop, double, move ---------------------------------------------------------------------------------------------------


def _kind(op: Op) -> str:
    released = op.NAME == "mbarrier.arrive" and op.operands[0].name.endswith(".empty")
    return "release" if released else GROUPS[op.NAME]


def drops(subject: Subject) -> Iterator[Mutant]:
    for op in _sites(subject, *EVENTS, "mbarrier.ready"):
        if op.NAME == "bulk.store":
            continue  # the kernel's own value
        kind = "init" if op.NAME == "mbarrier.ready" else _kind(op)

        def apply(op: Op = op) -> None:
            _replace_results(subject.kernel, op)
            _ops(op).remove(op)

        yield Mutant(f"drop {kind}", f"without {_label(subject, op)}", apply)


def _replace_results(kernel: Kernel, op: Op) -> None:
    """Replace the results of a wait for matmuls by its operands."""
    operand_of_result = dict(zip(op.results, op.operands, strict=False))
    for user in kernel.walk():
        if user is not op:
            user.operands = [operand_of_result.get(v, v) for v in user.operands]


def doubles(subject: Subject) -> Iterator[Mutant]:
    for op in _sites(subject, *EVENTS):
        if op.results or op.NAME == "bulk.store":
            continue

        def apply(op: Op = op) -> None:
            duplicate = type(op)(list(op.operands), [], op.attrs, [], op.loc)
            duplicate.parent = op.parent
            _ops(op).insert(_ops(op).index(op), duplicate)

        yield Mutant(f"double {_kind(op)}", f"{_label(subject, op)} twice", apply)


def _has_events(op: Op) -> bool:
    """Whether an op is part of the schedule, or contains such ops."""
    return any(inner.NAME in (*EVENTS, "group.mma", "buf.read", "buf.write") for inner in op.walk())


def moves(subject: Subject) -> Iterator[Mutant]:
    """Each event moved past one, two, ... events before and after it in its region, to the ends of the region, and out
    of the loop or branch."""
    for op in _sites(subject, *EVENTS):
        ops = _ops(op)
        position = ops.index(op)
        event_indices = [k for k, o in enumerate(ops) if o is not op and _has_events(o)]
        earlier = [k for k in reversed(event_indices) if k < position][:4]
        later_events = [k for k in event_indices if k > position][:4]
        for k in earlier:
            if _may_precede(op, ops, k):
                yield _move_mutant(subject, op, k, f"before {ops[k].NAME}")
        for k in later_events:
            if _may_follow(op, ops, position, k):
                yield _move_mutant(subject, op, k, f"after {ops[k].NAME}")
        last = len(ops) - 2
        if not later_events and position < last and _may_follow(op, ops, position, last):
            yield _move_mutant(subject, op, last, "to the end")
        enclosing = op.parent.parent if op.parent is not None else None
        if enclosing is None or enclosing.NAME not in ("for", "if") or op.results:
            continue
        if all(not _is_defined_inside(v, enclosing) for v in op.operands):
            yield _hoisted_mutant(subject, op, enclosing, 0, "before")
            yield _hoisted_mutant(subject, op, enclosing, 1, "after")


def _is_defined_inside(value: Value, enclosing: Op) -> bool:
    """Whether a value is defined in an op's regions."""
    defined = {r for o in enclosing.walk() for r in o.results} - set(enclosing.results)
    return value in defined or any(value in region.args for o in enclosing.walk() for region in o.regions)


def _may_precede(op: Op, ops: list[Op], to: int) -> bool:
    return all(v.owner not in ops[to:] for v in op.operands)


def _may_follow(op: Op, ops: list[Op], index: int, to: int) -> bool:
    used_values = {v for o in ops[index + 1 : to + 1] for inner in o.walk() for v in inner.operands}
    return not used_values & set(op.results)


def _move_mutant(subject: Subject, op: Op, to: int, position: str) -> Mutant:
    def apply() -> None:
        ops = _ops(op)
        ops.remove(op)
        ops.insert(to, op)

    return Mutant(f"move {_kind(op)}", f"{_label(subject, op)} {position} ({to})", apply)


def _hoisted_mutant(subject: Subject, op: Op, enclosing: Op, by: int, position: str) -> Mutant:
    def apply() -> None:
        _ops(op).remove(op)
        outer = _ops(enclosing)
        outer.insert(outer.index(enclosing) + by, op)
        op.parent = enclosing.parent

    return Mutant(f"move {_kind(op)}", f"{_label(subject, op)} {position} its {enclosing.NAME}", apply)


# Other operands -------------------------------------------------------------------------------------------------------


def retargets(subject: Subject) -> Iterator[Mutant]:
    """Events on other barriers, and on other buffers of the same shape."""
    for op in _sites(subject, *EVENTS):
        for k, v in enumerate(op.operands):
            if isinstance(v.type, MbarrierType):
                for barrier in _barriers(subject):
                    if barrier is not v:
                        yield _operand_mutant(subject, f"retarget {_kind(op)}", op, k, barrier, barrier.name)
    rings = [op.result for op in subject.kernel.walk() if op.NAME == "buf.new" and op.attrs.get("stages")]
    for view in _sites(subject, "buf.view"):
        for barrier in rings:
            ring = view.operands[0]
            if barrier is not ring and barrier.type == ring.type:
                yield _operand_mutant(subject, "retarget buffer", view, 0, barrier, barrier.name)


def _operand_mutant(
    subject: Subject, operator: str, op: Op, k: int, value: Value, target_name: str
) -> Mutant:
    def apply() -> None:
        op.operands[k] = value

    return Mutant(operator, f"{_label(subject, op)} of {target_name}", apply)


def _counters(subject: Subject, op: Op, k: int) -> list[Value]:
    """The other stages or phases that the role counts in the same loop."""
    value = op.operands[k]
    region = value.owner if isinstance(value.owner, Region) else None
    if region is None:
        return []
    return [v for v in region.args[1:] if v is not value and v.type == int32]


def phases(subject: Subject) -> Iterator[Mutant]:
    for op in _sites(subject, "mbarrier.wait"):
        for value in (0, 1):
            yield _computed_operand_mutant(
                subject, "phase", op, 2, f"is always {value}", lambda op, v, n=value: _const(op, n)
            )
        yield _computed_operand_mutant(subject, "phase", op, 2, "is flipped", _flipped)
        for n, counter in enumerate(_counters(subject, op, 2)):
            yield _operand_mutant(subject, "phase", op, 2, counter, f"counter {n}")


def _flipped(op: Op, value: Value) -> Value:
    return _before(op, S.Xor([value, _const(op, 1)], [int32]))


def _next(op: Op, value: Value, stages: int, by: int) -> Value:
    more = _before(op, S.Add([value, _const(op, by)], [int32]))
    return _before(op, S.Mod([more, _const(op, stages)], [int32]))


def _computed_operand_mutant(
    subject: Subject, operator: str, op: Op, k: int, operation: str, make: Callable[[Op, Value], Value]
) -> Mutant:
    def apply() -> None:
        op.operands[k] = make(op, op.operands[k])

    return Mutant(operator, f"{_label(subject, op)}: operand {k} {operation}", apply)


def stages(subject: Subject) -> Iterator[Mutant]:
    """The next stage, or always the first stage, of a barrier or of a ring."""
    for op in _sites(subject, *EVENTS, "buf.view"):
        barriers = [(k, v.type.stages) for k, v in enumerate(op.operands) if isinstance(v.type, MbarrierType)]
        ring = op.operands[0].owner if op.NAME == "buf.view" else None
        if isinstance(ring, Op) and ring.attrs.get("stages"):
            barriers = [(0, ring.attrs["stages"])]
        for k, count in barriers:
            if count < 2:
                continue
            for by in (1, count - 1) if count > 2 else (1,):
                yield _computed_operand_mutant(
                    subject, "stage", op, k + 1, f"is {by} further",
                    lambda op, v, n=count, by=by: _next(op, v, n, by),
                )  # fmt: skip
            yield _computed_operand_mutant(
                subject, "stage", op, k + 1, "is always 0", lambda op, v: _const(op, 0)
            )
            yield _computed_operand_mutant(
                subject, "stage", op, k + 1, "is one too large",
                lambda op, v: _before(op, S.Add([v, _const(op, 1)], [int32])),
            )  # fmt: skip


# Numbers --------------------------------------------------------------------------------------------------------------


def _attribute_mutant(subject: Subject, operator: str, op: Op, key: str, value: Any) -> Mutant:
    def apply() -> None:
        op.attrs[key] = value

    subject_name = op.result.name if op.NAME == "mbarrier.new" else _label(subject, op)
    return Mutant(operator, f"{subject_name}: {key} {op.attrs.get(key)} is {value}", apply)


def counts(subject: Subject) -> Iterator[Mutant]:
    for op in _sites(subject, "mbarrier.new"):
        n = op.attrs["arrivals"]
        for changed_count in dict.fromkeys((n - 1, n + 1, n + 4, n - 4, 2 * n, n // 2, 32 * n, 1, 1 << 20)):
            if changed_count > 0 and changed_count != n:
                yield _attribute_mutant(subject, "count", op, "arrivals", changed_count)


def bytes_(subject: Subject) -> Iterator[Mutant]:
    for op in _sites(subject, "mbarrier.expect"):
        n = op.attrs["bytes"]
        for changed_bytes in dict.fromkeys(
            (n - 16, n + 16, n // 2, 2 * n, 16, n - n // 4, n + 1024, 1 << 20)
        ):
            if changed_bytes > 0 and changed_bytes != n:
                yield _attribute_mutant(subject, "bytes", op, "bytes", changed_bytes)


def commits(subject: Subject) -> Iterator[Mutant]:
    """Other numbers of matmuls in flight, matmuls with and without waits, and other kinds of waits for stores."""
    for op in _sites(subject, "group.mma_wait"):
        for pending in {0, 1, 2, op.attrs["pending"] + 1} - {op.attrs["pending"]}:
            yield _attribute_mutant(subject, "commit", op, "pending", pending)
    for op in _sites(subject, "group.mma", "group.register_mma"):
        if op.attrs.get("unit") == "wgmma":
            yield _attribute_mutant(subject, "commit", op, "wait", not op.attrs.get("wait", True))
    for op in _sites(subject, "bulk.wait"):
        yield _attribute_mutant(subject, "commit", op, "read", not op.attrs["read"])


def budgets(subject: Subject) -> Iterator[Mutant]:
    roles = next(op for op in subject.kernel.body.ops if isinstance(op, Roles))
    registers = roles.attrs["registers"]
    for k, n in enumerate(registers):
        for changed_registers in dict.fromkeys(
            (n - 8, n + 8, n + 4, n - 4, 0, 16, 24, 40, 128, 160, 168, 232, 240, 248, 256, 264)
        ):
            if changed_registers >= 0 and changed_registers != n:
                changed = (*registers[:k], changed_registers, *registers[k + 1 :])
                yield _attribute_mutant(subject, "budget", roles, "registers", changed)


def addresses(subject: Subject) -> Iterator[Mutant]:
    """Buffers and barriers that overlap others, are moved by a few bytes, or are placed in unused memory."""
    allocations = subject.compilation.shared.allocations
    end = max(p.offset + p.size for p in allocations.values())
    for v, allocation in allocations.items():
        targets = [(f"on {o.name}", p.offset) for o, p in allocations.items() if o is not v]
        targets += [
            (f"{_signed(by)} bytes", allocation.offset + by) for by in (-1024, -128, -16, 16, 128, 1024)
        ]
        targets += [("after all others", -(-end // 1024) * 1024)]
        targets += [
            (f"on the end of {o.name}", p.offset + p.size - allocation.size) for o, p in allocations.items()
        ]
        for target_name, offset in targets:
            if offset < 0 or offset == allocation.offset:
                continue

            def apply(v: Value = v, allocation: SharedAllocation = allocation, offset: int = offset) -> None:
                allocations[v] = replace(allocation, offset=offset)

            yield Mutant("address", f"{v.name or 'scratch'} {target_name}", apply)


# Control --------------------------------------------------------------------------------------------------------------


def loops(subject: Subject) -> Iterator[Mutant]:
    """Loops of roles that run once more or less, branches that are always or never taken."""
    roles = next(op for op in subject.kernel.body.ops if isinstance(op, Roles))
    for role, region in zip(roles.attrs["names"], roles.regions, strict=True):
        candidates = [op for op in region.walk() if op.NAME in ("for", "if") and _has_events(op)]
        for n, op in enumerate(candidates):
            name = f"{role}: {op.NAME} {n}"
            if op.NAME == "for":
                for k, by in ((0, 1), (1, -1), (1, 1)):

                    def apply(op: Op = op, k: int = k, by: int = by) -> None:
                        op.operands[k] = _before(op, S.Add([op.operands[k], _const(op, by)], [int32]))

                    yield Mutant("loop", f"{name}: {'from' if k == 0 else 'to'} {_signed(by)}", apply)
                continue
            for value in (True, False):

                def decide(op: Op = op, value: bool = value) -> None:
                    op.operands[0] = _before(op, S.Const([], [bool_], {"type": bool_, "value": value}))

                yield Mutant("branch", f"{name} is {'always' if value else 'never'} taken", decide)

            def negate(op: Op = op) -> None:
                op.operands[0] = _before(op, S.Not([op.operands[0]], [bool_]))

            yield Mutant("branch", f"{name} is taken the other way", negate)
