"""How much an iteration of a loop seems to add: the first guess of what goes on in step, which the search corrects."""

from __future__ import annotations

from collections.abc import Callable

from tegula.check.proof.program import Program
from tegula.check.proof.terms import NONE, Sum, number
from tegula.ir import Op, Region, Value
from tegula.ops import events as E
from tegula.ops.control import For, If, While
from tegula.ops.scalar import Add, Cmp, Const, Sub

Trip = Callable[[For], Sum | None]
Count = tuple[str, int]
"""("arrived" or "waited", barrier)."""


def constant_trip(loop: For) -> Sum | None:
    """How often a loop with constant bounds goes on."""
    return None if loop.positions is None else number(len(loop.positions))


def items(program: Program, body: Region, trip: Trip) -> tuple[dict[Count, Sum], set[Count]]:
    """How often a body arrives and waits for sure, and where it does so in branches and loops of unknown trips."""
    sure: dict[Count, Sum] = {}
    unsure = set[Count]()
    waits = set[tuple[Value, ...]]()
    for op in body.ops:
        inner = [o for region in op.regions for o in region.walk()]
        times = trip(op) if isinstance(op, For) and program.counts(op) else None
        if not inner:
            for kind, b in _counts(program, op):
                again = (
                    kind == "waited" and tuple(op.operands) in waits
                )  # for an item that was waited for before
                if not again:
                    sure[kind, b] = sure.get((kind, b), NONE) + 1
                waits = {*waits, tuple(op.operands)} if kind == "waited" else set()
        elif isinstance(op, For) and times is not None:
            found, more = items(program, op.body, trip)
            unsure |= more
            for count, n in found.items():
                sure[count] = sure.get(count, NONE) + n * times
        elif isinstance(op, If | For | While):
            unsure.update(count for o in inner for count in _counts(program, o))
    return sure, unsure


def _counts(program: Program, op: Op) -> list[Count]:
    out: list[Count] = []
    if not program.acts(op):
        return out
    for e in program.happenings(op):
        if isinstance(e, E.Wait | E.NamedWait):
            out.append(("waited", program.barrier[e.barrier]))
        if isinstance(e, E.Arrive | E.Come):
            out.append(("arrived", program.barrier[e.barrier]))
    return out


def carried(loop: For | While, k: int, trip: Trip) -> tuple[Sum | None, bool]:
    """What is added to a value that a loop carries, None where branches and inner loops decide, and whether numbers are
    only added to it."""
    argument, given = loop.arguments[k], loop.body.yielded[k]
    n = _added(given, argument, trip)
    return n, n is not None or _counter(given, argument)


def _counter(given: Value, argument: Value) -> bool:
    if given is argument:
        return True
    owner = given.owner
    if isinstance(owner, Add | Sub):
        return isinstance(owner.b.owner, Const) and _counter(owner.a, argument)
    if not isinstance(owner, If | For | While):
        return False
    k = owner.results.index(given)
    if isinstance(owner, If):
        return all(_counter(region.yielded[k], argument) for region in owner.regions)
    inner = owner.arguments[k]
    return _counter(owner.initial[k], argument) and _counter(owner.body.yielded[k], inner)


def guarded(program: Program, body: Region) -> dict[Count, Cmp]:
    """What is arrived at, or waited for, once in an iteration, where a comparison holds."""
    out: dict[Count, Cmp] = {}
    for op in body.walk():
        if isinstance(op, If) and isinstance(op.condition.owner, Cmp):
            sure, _ = items(program, op.then, lambda _: None)
            out |= {count: op.condition.owner for count, n in sure.items() if n.value == 1}
    return out


def start(v: Value, body: Region) -> Value:
    """A value that inner loops of a body carry, at the start of the body."""
    while isinstance(v.owner, Region) and v.owner is not body:
        loop = v.owner.parent
        if not isinstance(loop, For | While):
            break
        if isinstance(loop, For) and v is loop.index:
            return loop.start
        v = loop.initial[loop.arguments.index(v)]
    return v


def before(v: Value, body: Region) -> Value:
    """What of the arguments of a body a number is, but for something that is added."""
    v = start(v, body)
    while isinstance(v.owner, Add | Sub) and isinstance(v.owner.b.owner, Const):
        v = start(v.owner.a, body)
    return v


def _added(given: Value, argument: Value, trip: Trip) -> Sum | None:
    if given is argument:
        return NONE
    owner = given.owner
    if (
        isinstance(owner, Add | Sub)
        and isinstance(owner.b.owner, Const)
        and isinstance(owner.b.owner.value, int)
    ):
        so_far = _added(owner.a, argument, trip)
        n = owner.b.owner.value
        return None if so_far is None else so_far + (n if isinstance(owner, Add) else -n)
    if isinstance(owner, For) and (times := trip(owner)) is not None:
        k = owner.results.index(given)
        so_far = _added(owner.initial[k], argument, trip)
        each = _added(owner.body.yielded[k], owner.arguments[k], trip)
        return None if so_far is None or each is None else so_far + each * times
    return None
