"""The prover's view of a kernel: roles, barriers and rings, and the ops of the schedule."""

from __future__ import annotations

from typing import Any, TypeAlias

from tegula.check.proof.guards import Guards
from tegula.check.scheduled import Access, Scheduled, memory
from tegula.dataclass import dataclass
from tegula.ir import ConstantLike, Kernel, Op, Region, Value
from tegula.ops import events as E
from tegula.ops.base import Binary
from tegula.ops.buffer import BufNew, BufReshape, BufView, root
from tegula.ops.control import For, If, While
from tegula.ops.convert import Cast
from tegula.ops.scalar import Select

Engine: TypeAlias = tuple[int, bool]
"""An engine that accesses a ring: a role, and whether it is the one that fills the ring, by copies or stores."""
Order: TypeAlias = list[list[tuple[Op, E.Event]]]
"""The events of each role in the order of its text, with their ops."""


@dataclass(frozen=True, slots=True)
class HandOver:
    """The barrier by which one engine hands a ring to another. `own`: both engines belong to one role, which knows its
    own arrivals."""

    giver: Engine
    taker: Engine
    barrier: int
    own: bool = False


@dataclass(frozen=True, slots=True)
class RingUse:
    """A buffer that engines hand to each other, with one row per ordered pair of engines. `copied`: the roles that copy
    into it; `storing`: the roles whose stores fill it, so that these stores belong to another engine than the role's
    reads."""

    stages: int
    rows: list[HandOver]
    asynchronous: bool
    copied: set[int]
    storing: set[int]

    def engine(self, role: int, writes: bool, asynchronous: bool) -> Engine:
        """The engine that makes an access of a role."""
        return role, writes and (asynchronous or role in self.storing)

    def handovers_of(self, engine: Engine) -> list[HandOver]:
        """The rows in which an engine hands over the buffer."""
        return [row for row in self.rows if row.giver == engine]


@dataclass(frozen=True, slots=True)
class Hint:
    """A value that selects the stage or parity of a barrier."""

    barrier: int
    parity: bool
    waits: bool


class Program(Scheduled):
    """A kernel's roles, barriers and rings, by number."""

    def __init__(self, kernel: Kernel, compilation: Any) -> None:
        super().__init__(kernel, compilation)
        self.region_number = {r: k for k, r in enumerate(self.regions)}
        self.counted: dict[Op, list[tuple[str, int]]] = {}
        """The counts that each op increases: ("arrived" or "waited", barrier)."""
        self.rings: dict[Value, RingUse] = {}
        self.writers: dict[int, set[Engine]] = {}
        for v, rows in self.accesses.items():
            copied = any(writes and asynchronous for _, writes, asynchronous, _ in rows)
            if copied or len({r for r, *_ in rows}) > 1 or self._storing(v, rows, self.order):
                self._ring(v, rows, self.order)
        self.overlapping = self._overlapping()
        self.guards = Guards(
            kernel, {op for op in self.ops if isinstance(op, For | While) and self.counts(op)}
        )
        self.numbered = {
            e.at.buffer
            for region in self.roles
            for op in region.walk()
            for e in self.events_of(op)
            if isinstance(e, E.MemoryAccess)
            and e.write
            and e.number is not None
            and e.at.buffer in self.rings
        }
        """Rings whose stages may hold one known number."""
        self.notes: dict[tuple[str, Region], Any] = {}
        """Cached results for regions, which depend on their text alone."""
        self.hints = self._hints()
        self.uses = self._uses()
        self.needed = self._needed()

    def hands(self, buffer: Value) -> bool:
        return buffer in self.rings

    # Rings -----------------------------------------------------------------------------------------------------------

    def _overlapping(self) -> dict[Value, list[int]]:
        """By buffer, the numbers of the tracked buffers, which are not rings, that share bytes with it."""
        overlaps: dict[Value, list[int]] = {}
        for v in self.tracked - self.rings.keys():
            p = self.allocations[v]
            for w, q in self.allocations.items():
                if p.offset < q.offset + q.size and q.offset < p.offset + p.size:
                    overlaps.setdefault(w, []).append(self.number[v])
        return overlaps

    def _ring(self, v: Value, accesses: list[Access], order: Order) -> None:
        """Record how engines hand a ring to each other: each pair of engines of which one writes."""
        assert isinstance(v.owner, Op)
        stages = v.owner.stages or 1 if isinstance(v.owner, BufNew) else 1
        copied = {r for r, writes, asynchronous, _ in accesses if writes and asynchronous}
        ring = RingUse(stages, [], v in self.tracked, copied, self._storing(v, accesses, order))
        writers = {ring.engine(r, True, asynchronous) for r, writes, asynchronous, _ in accesses if writes}
        engines = sorted(writers | {(r, False) for r, writes, _, _ in accesses if not writes})
        for x in engines:
            for y in engines:
                if x != y and (x in writers or y in writers):
                    row = self._hand_over(v, x, y, y in writers, order)
                    if row is not None:
                        ring.rows.append(row)
        if ring.rows:
            self.rings[v], self.writers[self.number[v]] = ring, writers

    def _storing(self, v: Value, accesses: list[Access], order: Order) -> set[int]:
        """The roles that fill a ring by stores of their threads: those that copy into it and do not read it, and those
        that hand over to themselves what they have stored, at a barrier where they arrive and wait."""
        out: set[int] = set()
        for role in {r for r, writes, asynchronous, _ in accesses if writes and not asynchronous}:
            if all(writes for r, writes, _, _ in accesses if r == role):
                if any(r == role and asynchronous for r, _, asynchronous, _ in accesses):
                    out.add(role)
                continue
            events = [e for _, e in order[role]]
            stores = [k for k, e in enumerate(events) if _fills(e, v)]
            own = {b for b, waiters in enumerate(self.waiters) if role in waiters & self.arrivers[b]}
            later = (e for e in events[stores[0] :] if isinstance(e, E.Arrive | E.NamedArrival))
            if (first := next(later, None)) is not None and self.barrier[first.barrier] in own:
                out.add(role)
        return out

    def _hand_over(self, v: Value, x: Engine, y: Engine, writes: bool, order: Order) -> HandOver | None:
        """The barrier at which engine `x` arrives and engine `y` waits: the one on which copies complete; else the
        barrier of the last wait of `y` before its write, or of the first arrival of `x` after its access."""

        def accesses(e: E.Event, engine: Engine) -> bool:
            return _fills(e, v) if engine[1] else any(at.buffer is v for at in memory(e))

        copies = (e for _, e in order[x[0] if x[1] else y[0]] if isinstance(e, E.CopyIn) and e.to.buffer is v)
        filled = next((self.barrier[e.barrier] for e in copies), -1)
        if x[1] and filled >= 0:
            return HandOver(x, y, filled) if y[0] in self.waiters[filled] else None
        known = [
            b
            for b in range(len(self.barriers))
            if x[0] in self.arrivers[b] and y[0] in self.waiters[b] and (x[0] != y[0] or b != filled)
        ]
        if writes:
            events = [e for _, e in order[y[0]]]
            first = next((k for k, e in enumerate(events) if accesses(e, y)), 0)
            near = [
                e
                for e in (*reversed(events[:first]), *reversed(events[first:]))
                if isinstance(e, E.Wait | E.NamedWait)
            ]
        else:
            events = [e for _, e in order[x[0]]]
            first = next((k for k, e in enumerate(events) if accesses(e, x)), 0)
            near = [e for e in (*events[first:], *events[:first]) if isinstance(e, E.Arrive | E.NamedArrival)]
        barrier = next((b for e in near if (b := self.barrier[e.barrier]) in known), None)
        if barrier is not None:
            return HandOver(x, y, barrier)
        return HandOver(x, y, filled, True) if x[0] == y[0] and filled >= 0 else None

    # Hints -----------------------------------------------------------------------------------------------------------

    def _hints(self) -> dict[Value, list[Hint]]:
        """The hints for each value: values that loops and branches carry or choose between form one class, and a class
        has the stages and parities that any of its members selects."""
        parent: dict[Value, Value] = {}

        def find(v: Value) -> Value:
            while v in parent:
                v = parent[v]
            return v

        def join(a: Value, b: Value) -> None:
            a, b = find(a), find(b)
            if a is not b and not any(isinstance(v.owner, ConstantLike) for v in (a, b)):
                parent[a] = b

        for op in self.ops:
            if isinstance(op, For | While):
                for k, v in enumerate(op.results):
                    for entry in op.entries:
                        join(v, entry[k])
                    join(v, op.body.yielded[k])
                    join(v, op.initial[k])
            elif isinstance(op, If):
                for k, v in enumerate(op.results):
                    for region in op.regions:
                        join(v, region.yielded[k])
            elif isinstance(op, Select):
                join(op.result, op.a)
                join(op.result, op.b)
            elif isinstance(op, Cast):
                join(op.result, op.x)
            elif isinstance(op, Binary):
                join(op.result, op.a)
        hints_of: dict[Value, dict[Hint, None]] = {}
        for op in self.ops:
            for e in self.events_of(op):
                b = self.at(e)
                for k, v in enumerate(E.stage_and_phase(op)):
                    hints_of.setdefault(find(v), {}).setdefault(Hint(b, bool(k), isinstance(e, E.Wait)))
        for op in self.ops:
            if (
                isinstance(op, BufView)
                and (ring := self.rings.get(op.buffer)) is not None
                and ring.stages > 1
            ):
                rows = hints_of.setdefault(find(op.starts[0]), {})
                for row in ring.rows:
                    rows.setdefault(Hint(row.barrier, False, True))
                    rows.setdefault(Hint(row.barrier, False, False))
        return {v: [*hints_of[find(v)]] for v in self.values if find(v) in hints_of}

    def _uses(self) -> dict[Value, set[Hint]]:
        """The uses of values as a stage or parity, directly or through the initial values of loops."""
        out: dict[Value, set[Hint]] = {}
        for op in self.ops:
            for e in self.events_of(op):
                b = self.at(e)
                for k, v in enumerate(E.stage_and_phase(op)):
                    while isinstance(v.owner, Cast):
                        v = v.owner.x
                    out.setdefault(v, set()).add(Hint(b, bool(k), isinstance(e, E.Wait)))
        for op in reversed([*self.ops]):  # inner loops first
            for a, v in zip(op.arguments, op.initial, strict=True) if isinstance(op, For | While) else ():
                out.setdefault(v, set()).update(out.get(a, ()))
        return out

    def _needed(self) -> set[Value]:
        """The values that decide the operations of roles on barriers and rings."""
        queue: list[Value] = []
        for op in self.ops:
            if isinstance(op, If) and self.counts(op):
                queue.append(op.condition)
            elif isinstance(op, For) and self.counts(op):
                queue += [op.start, op.stop, op.step, op.index]
            elif isinstance(op, While) and self.counts(op):
                queue += op.condition.yielded
            elif isinstance(op, BufView) and (
                root(op.buffer) in self.rings or root(op.buffer) in self.tracked
            ):
                queue += op.starts
            queue += E.stage_and_phase(op)
        needed: set[Value] = set()
        while queue:
            v = queue.pop()
            if v in needed:
                continue
            needed.add(v)
            owner = v.owner.parent if isinstance(v.owner, Region) else v.owner
            if isinstance(owner, For | While):
                rows = zip(owner.results, owner.initial, owner.body.yielded, *owner.entries, strict=True)
                queue += [w for row in rows if v in row for w in row]
            elif isinstance(owner, If):
                queue.append(owner.condition)
                queue += [region.yielded[owner.results.index(v)] for region in owner.regions]
            elif owner is not None and not owner.regions:
                queue.extend(owner.operands)
        return needed


def _fills(e: E.Event, ring: Value) -> bool:
    """Whether an event writes a ring, by a copy or by stores."""
    writes = isinstance(e, E.CopyIn) or (isinstance(e, E.MemoryAccess) and e.write)
    return writes and any(at.buffer is ring for at in memory(e))


def stage_of(buffer: Value) -> Value | None:
    """The value that selects the stage of a ring in a view."""
    buffer_root = root(buffer)
    stage: Value | None = None
    while buffer is not buffer_root:
        view = buffer.owner
        assert isinstance(view, BufView | BufReshape)
        buffer = view.buffer
        if buffer is buffer_root and isinstance(view, BufView):
            stage = view.starts[0]
    return stage
