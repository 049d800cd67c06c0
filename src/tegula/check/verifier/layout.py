"""The path-independent part of a kernel: roles, barriers, rings, and the counts of barriers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, TypeAlias
from zlib import crc32

from tegula.check.verifier.clusters import Clusters
from tegula.dataclass import dataclass
from tegula.ir import Kernel, Op, Region, Value
from tegula.ops import events as E
from tegula.ops import scalar as S
from tegula.ops.array import ArrayShape, ArrayView
from tegula.ops.buffer import BufNew, BufView, root
from tegula.ops.control import For, If, While
from tegula.ops.convert import Cast
from tegula.ops.debug import Assert
from tegula.ops.lane import Lanes
from tegula.ops.roles import WARP, WARP_GROUP, Roles
from tegula.ops.scalar import Const
from tegula.ops.schedule import (
    BulkLoad,
    MbarrierExpect,
    MbarrierNew,
    MbarrierWait,
    NamedNew,
    arrivals_at,
)
from tegula.types import ArrayType, BufType, DType, StackType

CONTROL = (If, For, While)


LARGEST = 2**28
"""The largest absolute value of a number that a guard bounds."""
COMPUTED = (
    S.Const, S.Add, S.Sub, S.Mul, S.Neg, S.Div, S.FloorDiv, S.Mod, S.Min, S.Max, S.Cmp, S.Select, S.And, S.Or, S.Xor,
    S.Not, S.Shl, S.Shr, Cast,
)  # fmt: skip
"""The ops that the host computes for guards."""


class Rejected(Exception):
    """The certificate is no proof. `op` and `role`: the location of the failure; `obligation` and `help` (the code to
    write instead) are set where they are known."""

    def __init__(
        self, message: str, op: Op | None = None, role: int = -1, obligation: str = "", help: str = ""
    ) -> None:
        super().__init__(message)
        self.message, self.op, self.role = message, op, role
        self.obligation, self.help = obligation, help


Engine: TypeAlias = tuple[int, bool]
"""An engine that accesses a ring: a role, and whether it is the one that fills the ring. Copies into a ring fill it,
reads do not, and stores by threads belong to one or the other, as the certificate says of each role."""


@dataclass(frozen=True, slots=True)
class HandOver:
    """A hand-over of a ring by one engine to another: the releasing engine arrives at `barrier` for item c + `item`
    after its accesses of item c of the ring, and the acquiring engine has waited for this item before its accesses of
    item c + `later` stages. `own`: both engines belong to one role, which knows its own arrivals before it starts a
    copy."""

    giver: Engine
    taker: Engine
    barrier: int
    item: int
    later: int
    own: bool


@dataclass(frozen=True, slots=True)
class Ring:
    """A ring of stages in shared memory that engines hand to each other. `accessed`: whether any access of it is
    asynchronous; `copied`, `stored`: the roles whose copies, and whose threads, write it; `storing`: the roles whose
    stores belong to the engine that fills the ring."""

    stages: int
    rows: list[HandOver]
    accessed: bool
    copied: set[int]
    stored: set[int]
    storing: set[int]

    def engine(self, role: int, writes: bool, proxy: str) -> Engine:
        """The engine that makes an access of a role."""
        return role, writes and (proxy == E.ASYNC or role in self.storing)

    def writes(self, engine: Engine) -> bool:
        """Whether an engine writes the ring."""
        role, fills = engine
        return fills or role in self.stored - self.storing

    def is_of_threads(self, engine: Engine) -> bool:
        """Whether an engine comprises accesses by threads or asynchronous reads, and not bulk loads alone."""
        return not engine[1] or engine[0] in self.storing

    def taken(self, engine: Engine) -> list[HandOver]:
        """The rows by which the ring is handed to an engine."""
        return [row for row in self.rows if row.taker == engine]


@dataclass(frozen=True, slots=True)
class Turn:
    """The reason why the accesses of a stage by a writing engine are complete before the engine writes the stage again:
    at each access of the ring, after arrivals at `barrier` for all items before x, the accesses of item x - `total` are
    complete, as the last wait at the barrier `after` shows. `after` -1: it accesses the first items only, one of each
    stage. `item`: the item of the barrier less that of the ring."""

    barrier: int
    item: int
    after: int
    total: int


def fingerprint(kernel: Kernel) -> int:
    """A checksum of a kernel: of its ops, their operands, attributes and types."""
    numbers: dict[Value, int] = {}
    for v in kernel.params:
        numbers[v] = len(numbers)
    out = 0
    for op in kernel.walk():
        for v in (*op.results, *(v for region in op.regions for v in region.args)):
            numbers[v] = len(numbers)
        attrs = sorted((k, str(x)) for k, x in op.attrs.items())
        line = (
            op.NAME,
            [numbers[v] for v in op.operands],
            [v.type.notation for v in op.results],
            attrs,
            len(op.regions),
        )
        out = crc32(str(line).encode(), out)
    return out


class Layout:
    """The part of a kernel that does not depend on the path: its roles, barriers and rings. The constructor raises
    Rejected where certificates do not cover the schedule, or where it breaks a rule on every path."""

    def __init__(self, kernel: Kernel, spread: Any, certificate: Mapping[str, Any]) -> None:
        self.kernel, self.known, self.places = kernel, spread.uniformity, spread.shared.places
        self.values: list[Value] = list(kernel.params)
        self.regions: list[Region] = [kernel.body]
        for op in kernel.walk():
            for region in op.regions:
                self.regions.append(region)
                self.values.extend(region.args)
            self.values += op.results
        self.number = {v: k for k, v in enumerate(self.values)}
        self.used = {v for op in kernel.walk() for v in op.operands}
        parent = next((op for op in kernel.body.ops if isinstance(op, Roles)), None)
        self.parent = parent
        self.roles = list(parent.regions) if parent is not None else [kernel.body]
        rows = parent.warps if parent is not None else [(0, spread.threads // WARP)]
        self.warps = [1 if self._one_warp(r) else n for r, (_, n) in zip(self.roles, rows, strict=True)]
        self.warp_groups = [max(1, n * WARP // WARP_GROUP) for _, n in rows]
        self.written = self._written()
        self.asserted = self._asserted()
        self.barriers = [op.result for op in kernel.walk() if isinstance(op, MbarrierNew | NamedNew)]
        self.barrier = {v: k for k, v in enumerate(self.barriers)}
        self.stages: list[int] = []
        self.named: list[bool] = []
        for v in self.barriers:
            assert isinstance(v.owner, Op)
            if v.owner.parent is not kernel.body:
                raise Rejected("a barrier is created inside a role", v.owner)
            self.stages.append(v.owner.stages if isinstance(v.owner, MbarrierNew) else 1)
            self.named.append(isinstance(v.owner, NamedNew))
        self.arrivers: list[dict[int, bool]] = [{} for _ in self.barriers]
        self.waiters: list[set[int]] = [set() for _ in self.barriers]
        self.offset = {(b, r): n for b, r, n in certificate["offsets"]}
        self.lags: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for b, r, c, n in certificate["lags"]:
            if b < 0 or c < -1:
                raise Rejected("the certificate refers to a barrier that the kernel lacks")
            self.lags.setdefault((b, r), []).append((c, n))
        pairs = {self.values[v]: (rows, set(storing)) for v, rows, storing in certificate["rings"]}
        self._happenings: dict[Op, tuple[E.Event, ...]] = {}
        self._scan(pairs)
        self._loud: dict[Op, bool] = {}
        self.turns: dict[tuple[int, Engine], Turn] = {}
        """By ring and engine, the turn of each engine whose accesses of a stage program order leaves unordered."""
        self._order(certificate["chains"])
        self._clusters(certificate["chains"])

    def _one_warp(self, region: Region) -> bool:
        """Whether one warp executes all of a role: codegen omits the others then."""
        return isinstance(region.parent, Roles) and all(
            isinstance(op, BulkLoad | MbarrierExpect | MbarrierWait)
            or bool(getattr(op, "elected", False))
            or (not op.COOPERATIVE and all(e.kind == "read" for e in op.effects()))
            for op in region.walk()
        )

    def _asserted(self) -> set[Value]:
        """The conditions of the asserts in front of a kernel's roles."""
        first = (
            self.kernel.body.ops[: self.kernel.body.ops.index(self.parent)] if self.parent is not None else []
        )
        inner = [o for op in first for o in (op.body.ops if isinstance(op, Lanes) else (op,))]
        return {op.condition for op in inner if isinstance(op, Assert)}

    def of_launch(self, v: Value) -> bool:
        """Whether the host can compute a value."""
        if not isinstance(v.type, DType) or v.type.is_float:
            return False
        if isinstance(v.owner, ArrayShape):
            return v.owner.array in self.kernel.params
        if isinstance(v.owner, If):
            ends = (region.yielded[v.owner.results.index(v)] for region in v.owner.regions)
            return all(map(self.of_launch, (v.owner.condition, *ends)))
        return v in self.kernel.params or (
            isinstance(v.owner, COMPUTED) and all(map(self.of_launch, v.owner.operands))
        )

    def _written(self) -> set[Value]:
        """The arrays that the kernel changes, or that share bytes with one that it changes."""
        found: set[Value] = set()
        for op in self.kernel.walk():
            for e in op.effects():
                if e.kind != "read" and e.value is not None and isinstance(e.value.type, ArrayType):
                    array = _array(e.value)
                    found.add(array)
                    if array in self.kernel.params:
                        known = self.kernel.access[self.kernel.params.index(array)]
                        found |= (
                            {self.kernel.params[j] for j in known.aliases}
                            if known
                            else set(self.kernel.params)
                        )
        return found

    def unwritten(self, array: Value) -> bool:
        """Whether the kernel leaves an array unchanged."""
        return _array(array) in self.kernel.params and not any(
            v is _array(array) or v not in self.kernel.params for v in self.written
        )

    def _scan(self, pairs: Mapping[Value, Any]) -> None:
        """Find which roles wait, arrive and access memory, by barrier and buffer; Rejected where O2 does not hold."""
        uses: dict[Value, set[tuple[int, bool, str]]] = {}
        self.waits_of_one: set[tuple[int, int]] = set()
        """The barriers that a role waits for with one warp, by barrier and role."""
        for r, region in enumerate(self.roles):
            elected: dict[int, set[bool]] = {}
            for op in region.walk():
                if op in self.known.divergent and any(self._acts(o) for o in op.walk()):
                    raise Rejected("threads of a role diverge around operations on barriers", op)
                for e in self.happenings(op):
                    b = self.barrier.get(getattr(e, "barrier", None), -1)  # type: ignore[arg-type]
                    if isinstance(e, E.Wait | E.NamedWait):
                        self.waiters[b].add(r)
                        elected.setdefault(b, set()).add(isinstance(e, E.Wait) and e.elected)
                    elif isinstance(e, E.Arrive | E.NamedArrival):
                        one = isinstance(e, E.Arrive) and e.elected
                        self.arrivers[b].setdefault(r, one)
                        if self.warps[r] > 1 and self.arrivers[b][r] != one:
                            raise Rejected(
                                "a role arrives with one warp at this op and with all warps at another", op
                            )
                    elif (
                        isinstance(e, E.CopyIn | E.CopyOut | E.Issue | E.MemoryAccess)
                        and op.NAME != "buf.new"
                    ):
                        writes = isinstance(e, E.CopyIn) or (isinstance(e, E.MemoryAccess) and e.write)
                        proxy = E.GENERIC if isinstance(e, E.MemoryAccess) else E.ASYNC
                        many = [*e.operands] if isinstance(e, E.Issue) else [_memory(e)]
                        for at in many:
                            uses.setdefault(at.buffer, set()).add((r, writes, proxy))
            self.waits_of_one |= {(b, r) for b, found in elected.items() if True in found}
            if self.warps[r] > 1 and any(len(x) > 1 for x in elected.values()):
                raise Rejected(
                    "a role waits for a barrier with one warp at this op and with all warps at another",
                    region.ops[0],
                )
        self.rings: dict[Value, Ring] = {}
        self.tracked = {v for v, found in uses.items() if any(proxy == E.ASYNC for *_, proxy in found)}
        for v, found in uses.items():
            copied = any(writes and proxy == E.ASYNC for _, writes, proxy in found)
            if copied or len({r for r, *_ in found}) > 1 or v in pairs:
                self.rings[v] = self._ring(v, found, pairs)
        self.overlapping = self._overlapping(uses)
        self._outside({*self.rings, *self.overlapping})
        for v, b in self.barrier.items():
            count = sum(1 if one else self.warps[r] for r, one in self.arrivers[b].items())
            if self.arrivers[b] and count != arrivals_at(v):
                assert isinstance(v.owner, Op)
                raise Rejected(
                    f"a phase of {v.name} gets {count} arrivals, but its count is {arrivals_at(v)}", v.owner
                )

    def _overlapping(self, uses: Mapping[Value, set[tuple[int, bool, str]]]) -> dict[Value, list[int]]:
        """By buffer, the tracked buffers that a write of the buffer changes: itself, and those of the role that share
        bytes with it. Rejected where bytes of a barrier or ring, or of two roles, are shared."""
        found: dict[Value, list[int]] = {}
        for v, p in self.places.items():
            if v not in self.rings and v not in self.tracked and v not in self.barrier:
                continue
            alone = v in self.tracked and v not in self.rings
            for w, q in self.places.items():
                if p.offset >= q.offset + q.size or q.offset >= p.offset + p.size:
                    continue
                of_one = len({r for x in (v, w) for r, *_ in uses.get(x, ())}) == 1
                if v is not w and not (alone and of_one and isinstance(w.type, BufType)):
                    owner = v.owner if isinstance(v.owner, Op) else None
                    raise Rejected(f"{v.name} and {w.name} share bytes", owner)
                if alone:
                    found.setdefault(w, []).append(self.number[v])
        return found

    def _outside(self, mine: set[Value]) -> None:
        """Reject accesses of rings, and of sources of bulk stores, outside of roles or in ops that the verifier does
        not model."""
        for op in self.kernel.walk():
            inside = any(self._within(op, region) for region in self.roles)
            started = any(
                e.kind == "issue" and e.value is not None and root(e.value) in mine for e in op.effects()
            )
            filled = any(
                isinstance(e, E.MemoryAccess)
                and e.at.buffer in mine
                and (not inside or (op.NAME == "buf.new" and e.at.buffer in self.rings))
                for e in self.happenings(op)
            )
            if (
                (started and not (inside and E.completes_copies(op)))
                or filled
                or (not inside and self._acts(op))
            ):
                raise Rejected(
                    "an operation on a barrier or ring is outside of roles, or accesses memory of several roles",
                    op,
                )
            other = op.regions and not isinstance(op, CONTROL) and op is not self.parent
            if other and any(self._acts(o) for region in op.regions for o in region.walk()):
                raise Rejected("the verifier does not model the ops in this region", op)

    def _clusters(self, chains: Sequence[Any]) -> None:
        """Check that both CTAs of a cluster perform the same operations for each other, and that a stage which both
        fill is free in both."""
        shared = [op for op in self.kernel.walk() if isinstance(op, BulkLoad) and op.cluster]
        if not shared and not any(self.clustered(v) for v in self.barriers):
            return
        clusters = Clusters(self.kernel, self.unwritten)
        for op in self.kernel.walk():
            if (
                isinstance(op, CONTROL)
                and not clusters.alike(op)
                and any(self._signals(o) for o in op.walk())
            ):
                raise Rejected(
                    "the two CTAs of a cluster may execute this op a different number of times", op
                )
        for op in shared:
            if problem := clusters.shared(op):
                raise Rejected(problem, op)
            ring = self.rings[root(op.buffer)]
            if not all(self.clustered(self.barriers[row.barrier]) for row in ring.rows if row.taker[1]):
                raise Rejected("a stage that both CTAs of a cluster fill may be in use in the peer CTA", op)
            known = {
                (w, r) for b, w, r, links in chains if b == self.barrier[op.barriers] and self._across(links)
            }
            for r in self.arrivers[self.barrier[op.barriers]]:
                if not all((w, r) in known for w in self.waiters[self.barrier[op.barriers]]):
                    raise Rejected("the peer CTA of a cluster may still be in the previous phase", op)

    def _across(self, links: Sequence[tuple[int, int]]) -> bool:
        """Whether a chain begins with a wait at a barrier of both CTAs."""
        return len(links) > 1 and self.clustered(self.barriers[links[1][0]])

    def clustered(self, barrier: Value) -> bool:
        """Whether arrivals at a barrier are made in both CTAs of a cluster."""
        return isinstance(barrier.owner, MbarrierNew) and bool(barrier.owner.cluster)

    def _signals(self, op: Op) -> bool:
        if type(op) not in E.RULES:
            return False
        signals = (E.Wait, E.NamedWait, E.Arrive, E.NamedArrival, E.CopyIn)
        return any(isinstance(e, signals) for e in self.happenings(op))

    def _within(self, op: Op, region: Region) -> bool:
        at = op.parent
        while at is not None and at is not region:
            at = at.parent.parent if at.parent is not None else None
        return at is not None

    def _ring(self, v: Value, found: set[tuple[int, bool, str]], pairs: Mapping[Value, Any]) -> Ring:
        """The ring of a buffer with its hand-overs from the certificate; Rejected where a writing engine and another
        engine do not alternate."""
        op, name = v.owner, v.name or "a buffer"
        assert isinstance(op, Op)
        if v not in pairs or isinstance(v.type, StackType):
            raise Rejected(f"roles share {name}, and no pair of barriers hands it over", op)
        copied = {r for r, writes, proxy in found if writes and proxy == E.ASYNC}
        stored = {r for r, writes, proxy in found if writes and proxy == E.GENERIC}
        given, storing = pairs[v]
        rows = [
            HandOver((x, bool(f)), (y, bool(g)), b, n, m, bool(own)) for x, f, y, g, b, n, m, own in given
        ]
        stages = (op.stages if isinstance(op, BufNew) else 0) or 1
        ring = Ring(stages, rows, v in self.tracked, copied, stored, storing & stored)
        for row in rows:
            (x, copies), (y, filling) = row.giver, row.taker
            told = x == y and filling and not copies if row.own else y in self.waiters[row.barrier]
            if row.barrier < 0 or x not in self.arrivers[row.barrier] or not told:
                raise Rejected(
                    f"a role uses {v.name}, and no hand-over shows when its accesses are complete", op
                )
        engines = {ring.engine(*access) for access in found}
        for x, y in combinations(sorted(engines), 2):
            if ring.writes(x) or ring.writes(y):
                there = min((row.later for row in rows if (row.giver, row.taker) == (x, y)), default=2)
                back = min((row.later for row in rows if (row.giver, row.taker) == (y, x)), default=2)
                if there + back > 1:
                    raise Rejected(f"roles share {name}, and do not hand it over in turn", op)
        return ring

    def _order(self, chains: Sequence[Any]) -> None:
        """Check O4: a role that arrives for an item knows that all waiters have waited for the item S before, so that
        its phase is over."""
        given = {(b, w, r): links for b, w, r, links in chains}
        totals: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for b, waiters in enumerate(self.waiters):
            for r in self.arrivers[b] if waiters else ():
                early = (self.stages[b], -1) if (-1, 0) in self.lags.get((b, r), ()) else None
                found = [early or self._chain(b, w, given.get((b, w, r))) for w in waiters]
                proved = [total is not None for total in found]
                if not (any(proved) if self.named[b] else all(proved)):
                    raise Rejected(
                        f"{self.barriers[b].name} may be two phases ahead of a role that waits for it",
                        self.barriers[b].owner,  # type: ignore[arg-type]
                    )
                totals[b, r] = [total for total in found if total is not None]
        self._take_turns(totals)

    def _chain(self, b: int, waiter: int, links: Sequence[tuple[int, int]] | None) -> tuple[int, int] | None:
        """The sum of the lags of a chain of (barrier, arriver) that shows O4 for a waiter at b, and the barrier of its
        first wait: each arriver has waited at the barrier of the next link, the last one at b, and the lags sum to at
        most the number of stages. None if the chain does not show it."""
        total = 0
        if not links or links[0][0] != b or links[-1][1] != waiter or min(at for at, _ in links) < 0:
            return None
        for k, (at, role) in enumerate(links):
            after = links[k + 1][0] if k + 1 < len(links) else b
            lag = dict(self.lags.get((at, role), ())).get(after)
            if role not in self.arrivers[at] or lag is None:
                return None
            total += lag
            if total > self.stages[b]:
                return None
        return total, links[1][0] if len(links) > 1 else b

    def _take_turns(self, totals: Mapping[tuple[int, int], Sequence[tuple[int, int]]]) -> None:
        """Find for each engine that writes a ring, by copies or by several warps, why its accesses of a stage are
        complete before it writes the stage again: program order covers accesses by one warp only."""
        for v, ring in self.rings.items():
            for x in {row.giver for row in ring.rows}:
                role = x[0]
                if not ring.writes(x) or not (self.warps[role] > 1 or (x[1] and role in ring.copied)):
                    continue
                turns = [
                    Turn(row.barrier, row.item, after, total)
                    for row in ring.rows
                    if row.giver == x and not row.own
                    for total, after in totals[row.barrier, role]
                    if after >= 0 or total <= ring.stages
                ]
                if not turns:
                    owner = v.owner if isinstance(v.owner, Op) else None
                    raise Rejected(
                        f"a role may refill a stage of {v.name or 'a buffer'} while the stage is in use",
                        owner,
                    )
                self.turns[self.number[v], x] = min(turns, key=lambda turn: turn.total)

    def slots(self, v: Value) -> int:
        """The stages of a buffer of one role that copies read; 0 for others."""
        return v.owner.stages if v in self.tracked and isinstance(v.owner, BufNew) else 0

    def _acts(self, op: Op) -> bool:
        """Whether an op has events other than accesses of memory, synchronisation and fences."""
        if type(op) not in E.RULES:
            return False
        return any(not isinstance(e, E.MemoryAccess | E.Sync | E.Fence) for e in self.happenings(op))

    def happenings(self, op: Op) -> tuple[E.Event, ...]:
        """The events of an op, without the stages and numbers that depend on the path."""
        found = self._happenings.get(op)
        if found is None:
            found = self._happenings[op] = tuple(E.events(op, Anything(self)))
        return found

    def loud(self, op: Op) -> bool:
        """Whether an op is a step: one that acts, or a branch that threads take together and that hands over rings."""
        if op not in self._loud:
            alike = isinstance(op, If) and not self.known.varying(op.condition)
            self._loud[op] = any(self._acts(o) or (alike and self._prepares(o)) for o in op.walk())
        return self._loud[op]

    def _prepares(self, op: Op) -> bool:
        return any(
            isinstance(e, E.Fence) or (isinstance(e, E.MemoryAccess) and e.at.buffer in self.rings)
            for e in self.happenings(op)
        )


def part_of_stage(buffer: Value) -> tuple[int, int] | None:
    """The range of elements of a ring's stage, in order, in which a view with constant starts lies; None for other
    views."""
    views: list[BufView] = []
    while isinstance(buffer.owner, BufView):
        views.append(buffer.owner)
        buffer = buffer.owner.buffer
    if not isinstance(buffer.owner, BufNew) or not isinstance(buffer.type, BufType):
        return None
    shape = buffer.type.shape
    if shape[0] != (buffer.owner.stages or 1):
        return None
    box, at = [(0, n) for n in shape], list(range(len(shape)))
    for view in reversed(views):
        if -1 in view.dims or any(n != 1 for n in view.steps) or len({*view.dims}) != len(view.dims):
            return None
        sizes = dict(zip(view.dims, view.shape, strict=True))
        for d, start in enumerate(view.starts):
            op = start.owner
            if at[d] and not isinstance(op, Const):
                return None
            first = int(op.value) if isinstance(op, Const) else 0
            box[at[d]] = (box[at[d]][0] + first, sizes.get(d, 1))
        at = [at[d] for d in view.dims]
    low = high = 0
    for n, (first, size) in zip(shape[1:], box[1:], strict=True):
        low, high = low * n + first, high * n + first + size - 1
    return low, high + 1


def _array(v: Value) -> Value:
    """The array of which a view shows a part."""
    while isinstance(v.owner, ArrayView):
        v = v.owner.array
    return v


def _memory(e: Any) -> E.Bytes:
    return e.to if isinstance(e, E.CopyIn) else e.source if isinstance(e, E.CopyOut) else e.at


class Anything:
    """The path-independent facts about operands, in the interface of the event table (see events.Known)."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def number(self, value: Value) -> int:
        """The integer 0 for every value: stages are not distinguished."""
        return 0

    def bytes(self, buffer: Value) -> E.Bytes:
        """The bytes of the whole buffer that a view shows, counted from its own start."""
        place = self.layout.places.get(root(buffer))
        return E.Bytes(0, place.size if place is not None else 1, root(buffer))

    def warp_groups(self, op: Op) -> int:
        """The number of warp groups of the role that an op is in; 1 outside of roles."""
        at = op.parent
        while at is not None and at not in self.layout.roles:
            at = at.parent.parent if at.parent is not None else None
        return self.layout.warp_groups[self.layout.roles.index(at)] if at is not None else 1
