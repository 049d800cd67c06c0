"""The prover's view of a kernel: roles, barriers and rings, and the ops of the schedule."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, TypeAlias

from tegula.check.proof.guards import Guards
from tegula.check.proof.terms import Sum
from tegula.check.scheduled import Access, Scheduled, memory
from tegula.dataclass import dataclass, replace
from tegula.ir import ConstantLike, Kernel, Op, Region, Value
from tegula.ops import events as E
from tegula.ops.base import Binary, Unary
from tegula.ops.buffer import BufNew, BufReshape, BufView, root
from tegula.ops.control import For, If, While
from tegula.ops.convert import Cast
from tegula.ops.scalar import Select
from tegula.ops.schedule import arrivals_at
from tegula.types import DTYPES

Engine: TypeAlias = tuple[int, bool]
"""An engine that accesses a ring: a role, and whether the engine fills the ring, by copies or stores."""
Order: TypeAlias = list[list[tuple[Op, E.Event]]]
"""The events of each role in program order, each with its op."""
MAX_PARTS = 3
"""The maximum numbers of arrivals of one warp, and of all warps, of a role for an item."""


@dataclass(frozen=True, slots=True)
class HandOver:
    """A hand-over of a ring from one engine to another, by a barrier. `own`: both engines belong to one role, whose
    arrivals precede its copies in program order. `group`: the number of items of the ring that an item of the barrier
    hands over. `links`: the barriers at which other roles hand the items on, each with such a role, the last one
    first."""

    releaser: Engine
    acquirer: Engine
    barrier: int
    own: bool = False
    group: int = 1
    links: tuple[tuple[int, int], ...] = ()

    @property
    def waited_barrier(self) -> int:
        """The barrier where the acquiring engine waits."""
        return self.links[0][0] if self.links else self.barrier

    def lags(self) -> list[tuple[int, int, int]]:
        """The lags by which the links hand on items: (barrier, role, barrier of the wait before)."""
        before = [*(b for b, _ in self.links[1:]), self.barrier]
        return [(b, r, c) for (b, r), c in zip(self.links, before, strict=False)]

    def last_of(self, item: Sum, shift: int) -> Sum:
        """The last item of the ring that an item of the barrier hands over. `shift`: the item of the barrier that hands
        over item 0 of the ring."""
        return (item - shift) * self.group + (self.group - 1)


@dataclass(frozen=True, slots=True)
class RingUse:
    """A buffer that engines hand to each other, with one hand-over per ordered pair of engines. `asynchronous`: whether
    copies or tensor cores access it; `copying_roles`: the roles that copy into it; `filling_roles`: the roles whose
    stores belong to the engine that fills the ring, and not to the engine of the role's reads."""

    stages: int
    handovers: list[HandOver]
    asynchronous: bool
    copying_roles: set[int]
    filling_roles: set[int]

    def engine(self, role: int, writes: bool, asynchronous: bool) -> Engine:
        """The engine to which an access of a role belongs."""
        return role, writes and (asynchronous or role in self.filling_roles)

    def handovers_from(self, engine: Engine) -> list[HandOver]:
        """The hand-overs in which an engine releases the buffer."""
        return [row for row in self.handovers if row.releaser == engine]


@dataclass(frozen=True, slots=True)
class Hint:
    """The use of a value as the stage, or the parity, of a wait or an arrival at a barrier."""

    barrier: int
    parity: bool
    waits: bool


class Program(Scheduled):
    """A kernel's roles, barriers and rings, by number."""

    def __init__(self, kernel: Kernel, compilation: Any, rings_of_one_role: bool = True) -> None:
        """`rings_of_one_role`: whether memory is a ring that a role hands over to itself, at a barrier where it arrives
        and waits."""
        super().__init__(kernel, compilation)
        self.region_number = {r: k for k, r in enumerate(self.regions)}
        self.counted: dict[Op, list[tuple[str, int]]] = {}
        """The counts that each op increases: ("arrived" or "waited", barrier)."""
        self.rings: dict[Value, RingUse] = {}
        self.has_rings_of_one_role = False
        self.writers: dict[int, set[Engine]] = {}
        for v, rows in self.accesses.items():
            copied = any(writes and asynchronous for _, writes, asynchronous, _ in rows)
            is_shared = copied or len({r for r, *_ in rows}) > 1
            if is_shared or (rings_of_one_role and self._filling_roles(v, rows, self.order)):
                self._ring(v, rows, self.order)
                self.has_rings_of_one_role |= not is_shared
        self.parts = dict(self._parts())
        """By barrier and role, the numbers of arrivals of one warp, and of all warps, for an item, if not one alone."""
        self.units = [1] * len(self.barriers)
        """By barrier, the length of an item in the unit in which lags are counted."""
        self.overlapping = self._overlapping()
        self.guards = Guards(
            kernel, {op for op in self.ops if isinstance(op, For | While) and self.counts(op)}
        )
        self.rings_with_contents = {
            e.at.buffer
            for region in self.roles
            for op in region.walk()
            for e in self.events_of(op)
            if isinstance(e, E.MemoryAccess)
            and e.write
            and e.number is not None
            and e.at.buffer in self.rings
        }
        """The rings to whose stages a known number may be stored."""
        self.cache_of_regions: dict[tuple[str, Region], Any] = {}
        """Cached results of analyses, by analysis and region."""
        self.cache_of_cycles: dict[Value, Any] = {}
        """Cached results of `cycles.cycle`."""
        self.periods: dict[Value, dict[int, None]] = {}
        """The numbers of slots of buffers, not rings, whose slot a value selects."""
        self.masks: set[Value] = set()
        """The values of which bits are flipped, such as the parities of stages."""
        self.hints = self._hints()
        self.uses = self._uses()
        self.needed = self._needed()

    def hand_over_groups(self) -> bool:
        """Let barriers with fewer stages than a ring hand over groups of its items; False if there are none."""
        for v, ring in self.rings.items():
            groups = {row.barrier: ring.stages // self.stages[row.barrier] for row in ring.handovers}
            if all(n > 0 and n * self.stages[b] == ring.stages for b, n in groups.items()):
                rows = [replace(row, group=groups[row.barrier]) for row in ring.handovers]
                self.rings[v] = replace(ring, handovers=rows)
                for b, n in groups.items():
                    self.units[b] = max(self.units[b], n)
        return any(n > 1 for n in self.units)

    def stages_handed_over(self, buffer: Value) -> int:
        return self.rings[buffer].stages if buffer in self.rings else 0

    # Arrivals --------------------------------------------------------------------------------------------------------

    def _parts(self) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        """The roles that arrive more than once for an item of a barrier, by the count of the barrier, each with its
        arrivals of one warp and of all warps."""
        for b, v in enumerate(self.barriers):
            roles, rows = sorted(self.arrivers[b]), list[list[tuple[int, int]]]()
            for r in roles:
                kinds = {e.elected for _, e in self.order[r] if isinstance(e, E.Arrive) and self.at(e) == b}
                alone = [(1, 0)] if True in kinds and (self.warps[r] == 1 or False not in kinds) else []
                alone += [(0, 1)] if False in kinds and not alone else []
                ones, all_ = (range(1, MAX_PARTS + 1) if k in kinds else range(1) for k in (True, False))
                rows.append([*alone, *product(ones, all_)])
            for parts in sorted(product(*rows), key=lambda parts: sum(map(sum, parts))):
                by_role = [*zip(roles, parts, strict=True)]
                if sum(n + m * self.warps[r] for r, (n, m) in by_role) == arrivals_at(v):
                    yield from (((b, r), part) for r, part in by_role if sum(part) > 1)
                    break

    def completes(self, op: Op) -> bool:
        """Whether an op's arrival is counted as the one that completes an item: the last one of its role, or of one
        warp."""
        for r, events in enumerate(self.order if self.parts else ()):
            for b in {self.at(e) for o, e in events if o is op and isinstance(e, E.Arrive)}:
                n, m = self.parts.get((b, r), (0, 1))
                alike = [
                    o
                    for o, e in events
                    if isinstance(e, E.Arrive) and self.at(e) == b and e.elected == (not m)
                ]
                return op in alike and (alike.index(op) + 1) % (m or n) == 0
        return True

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
        """Record the hand-overs of a ring between each two engines one of which writes."""
        assert isinstance(v.owner, Op)
        stages = v.owner.stages or 1 if isinstance(v.owner, BufNew) else 1
        copied = {r for r, writes, asynchronous, _ in accesses if writes and asynchronous}
        ring = RingUse(stages, [], v in self.tracked, copied, self._filling_roles(v, accesses, order))
        writers = {ring.engine(r, True, asynchronous) for r, writes, asynchronous, _ in accesses if writes}
        engines = sorted(writers | {(r, False) for r, writes, _, _ in accesses if not writes})
        indirect: list[HandOver] = []
        for x in engines:
            for y in engines:
                if x != y and (x in writers or y in writers):
                    row = self._hand_over(v, x, y, y in writers, order)
                    if row is not None:
                        (indirect if row.links else ring.handovers).append(row)
        ring.handovers.extend(indirect)
        if ring.handovers:
            self.rings[v], self.writers[self.number[v]] = ring, writers

    def _filling_roles(self, v: Value, accesses: list[Access], order: Order) -> set[int]:
        """The roles that fill a ring by stores of their threads: roles that also copy into the ring and do not read it,
        and roles that hand the stored items over to themselves, at a barrier where they arrive and wait."""
        filling: set[int] = set()
        for role in {r for r, writes, asynchronous, _ in accesses if writes and not asynchronous}:
            if all(writes for r, writes, _, _ in accesses if r == role):
                if any(r == role and asynchronous for r, _, asynchronous, _ in accesses):
                    filling.add(role)
                continue
            events = [e for _, e in order[role]]
            stores = [k for k, e in enumerate(events) if _fills(e, v)]
            own = {b for b, waiters in enumerate(self.waiters) if role in waiters & self.arrivers[b]}
            later = (e for e in events[stores[0] :] if isinstance(e, E.Arrive | E.NamedArrival))
            if (first := next(later, None)) is not None and self.barrier[first.barrier] in own:
                filling.add(role)
        return filling

    def _hand_over(self, v: Value, x: Engine, y: Engine, writes: bool, order: Order) -> HandOver | None:
        """The hand-over from engine `x` to engine `y`, at a barrier where `x` arrives and `y` waits: the barrier on
        which copies complete; else the barrier of the last wait of `y` before its write, or of the first arrival of `x`
        after its access. Where there is no such barrier, other roles hand on what `x` hands over."""

        def accesses(e: E.Event, engine: Engine) -> bool:
            return _fills(e, v) if engine[1] else any(at.buffer is v for at in memory(e))

        copies = (e for _, e in order[x[0] if x[1] else y[0]] if isinstance(e, E.CopyIn) and e.to.buffer is v)
        copy_barrier = next((self.barrier[e.barrier] for e in copies), -1)
        events = [e for _, e in order[y[0]]]
        first = next((k for k, e in enumerate(events) if accesses(e, y)), 0)
        waits = [
            self.barrier[e.barrier]
            for e in (*reversed(events[:first]), *reversed(events[first:]))
            if isinstance(e, E.Wait | E.NamedWait)
        ]
        events = [e for _, e in order[x[0]]]
        first = next((k for k, e in enumerate(events) if accesses(e, x)), 0)
        arrivals = [
            self.barrier[e.barrier]
            for e in (*events[first:], *events[:first])
            if isinstance(e, E.Arrive | E.NamedArrival)
        ]
        if x[1] and copy_barrier >= 0:
            arrivals = [copy_barrier]
        elif x[0] == y[0]:
            arrivals, waits = ([b for b in rows if b != copy_barrier] for rows in (arrivals, waits))
        barrier = next((b for b in (waits if writes else arrivals) if b in arrivals and b in waits), None)
        if barrier is not None:
            return HandOver(x, y, barrier)
        if x[0] == y[0] and not x[1] and copy_barrier >= 0:
            return HandOver(x, y, copy_barrier, True)
        return self._indirect_hand_over(x, y, arrivals, waits)

    def _indirect_hand_over(
        self, x: Engine, y: Engine, arrivals: list[int], waits: list[int]
    ) -> HandOver | None:
        """The hand-over from `x` to `y` by the fewest other roles, which wait for what the one before hands over, and
        then arrive at a barrier themselves. `arrivals`, `waits`: the barriers of `x` and of `y`, by preference."""
        others = [r for r in range(len(self.roles)) if r not in (x[0], y[0])]
        paths = [(b, ()) for b in dict.fromkeys(arrivals)]
        reached = set(arrivals)
        while paths:
            longer: list[tuple[int, tuple[tuple[int, int], ...]]] = []
            for first, links in paths:
                at = links[0][0] if links else first
                for r in (r for r in others if r in self.waiters[at]):
                    for b, arrivers in enumerate(self.arrivers):
                        if r in arrivers and b not in reached:
                            longer.append((first, ((b, r), *links)))
            ends = [
                (waits.index(links[0][0]), k) for k, (_, links) in enumerate(longer) if links[0][0] in waits
            ]
            if ends:
                first, links = longer[min(ends)[1]]
                return HandOver(x, y, first, links=links)
            paths = longer
            reached |= {links[0][0] for _, links in longer}
        return None

    # Hints -----------------------------------------------------------------------------------------------------------

    def _hints(self) -> dict[Value, list[Hint]]:
        """The hints of each value. Values that a loop carries, or between which a branch selects, form one class, and
        all members of a class have the same hints."""
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
            elif isinstance(op, Cast | Unary):
                join(op.result, op.x)
            elif isinstance(op, Binary):
                join(op.result, op.b if isinstance(op.a.owner, ConstantLike) else op.a)
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
                for row in ring.handovers:
                    rows.setdefault(Hint(row.waited_barrier, False, True))
                    rows.setdefault(Hint(row.barrier, False, False))
        periods_of: dict[Value, dict[int, None]] = {}
        for op in self.ops:
            if isinstance(op, BufView) and op.buffer not in self.rings and self.slots(op.buffer) > 1:
                periods_of.setdefault(find(op.starts[0]), {}).setdefault(self.slots(op.buffer))
        self.periods = {v: periods_of[find(v)] for v in self.values if find(v) in periods_of}
        flipped = {
            find(op.result)
            for op in self.ops
            if isinstance(op, Binary) and op.FLIPS_BITS and _selects_bits(op.b)
        }
        self.masks = {v for v in self.values if find(v) in flipped}
        return {v: [*hints_of[find(v)]] for v in self.values if find(v) in hints_of}

    def _uses(self) -> dict[Value, set[Hint]]:
        """The uses of values as a stage or parity: directly, with constants, or through the initial values of loops."""
        out: dict[Value, set[Hint]] = {}
        for op in self.ops:
            for e in self.events_of(op):
                b = self.at(e)
                for k, v in enumerate(E.stage_and_phase(op)):
                    while (operand := _only_operand(v)) is not None:
                        v = operand
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


def _selects_bits(v: Value) -> bool:
    """Whether a value may select other bits than the lowest one: it is neither 1 nor converted from a bool."""
    while isinstance(v.owner, Cast):
        v = v.owner.x
    is_one = isinstance(v.owner, ConstantLike) and v.owner.value == 1
    return not is_one and v.type is not DTYPES["bool"]


def _only_operand(v: Value) -> Value | None:
    """The only operand of an op that is not a constant; None if there are several, or none."""
    op = v.owner
    if isinstance(op, Cast | Unary):
        return op.x
    if not isinstance(op, Binary):
        return None
    operands = [x for x in (op.a, op.b) if not isinstance(x.owner, ConstantLike)]
    return operands[0] if len(operands) == 1 else None


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
