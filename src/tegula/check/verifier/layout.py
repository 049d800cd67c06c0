"""The path-independent part of a kernel: roles, barriers, rings, and the counts of barriers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, TypeAlias

from tegula.check.scheduled import OfLaunch, Scheduled, asserts
from tegula.check.verifier.arithmetic import Poly, number, plus
from tegula.check.verifier.clusters import Clusters
from tegula.dataclass import dataclass
from tegula.ir import ConstantLike, Kernel, Op, Region, Value
from tegula.ops import events as E
from tegula.ops.buffer import BufNew, BufView, root
from tegula.ops.control import For, If, While
from tegula.ops.schedule import (
    BulkLoad,
    MbarrierNew,
    NamedNew,
    arrivals_at,
)
from tegula.types import BufType, StackType

CONTROL = (If, For, While)


class Rejected(Exception):
    """The certificate is not a proof. `op` and `role`: the location of the failure; `obligation` and `help` (the code
    to write instead) are set where they are known."""

    def __init__(
        self, message: str, op: Op | None = None, role: int = -1, obligation: str = "", help: str = ""
    ) -> None:
        super().__init__(message)
        self.message, self.op, self.role = message, op, role
        self.obligation, self.help = obligation, help


Engine: TypeAlias = tuple[int, bool]
"""An engine that accesses a ring: a role, and whether the engine fills the ring. Bulk copies into a ring belong to the
filling engine of their role, reads to the other engine; the certificate assigns the stores of each role to one of the
two."""


@dataclass(frozen=True, slots=True)
class HandOver:
    """A hand-over of a ring from one engine to another. The releasing engine arrives at `barrier` for item
    c div `group` + `item_shift` after its accesses of item c of the ring; the acquiring engine waits for that item
    before its accesses of item c + `reuse_distance` * stages. `own`: both engines belong to one role, whose arrivals
    precede its copies in program order. Where other roles hand the item on, the acquiring engine waits at
    `waited_barrier`, for an item later by `delay` than that of `barrier`."""

    releaser: Engine
    acquirer: Engine
    barrier: int
    item_shift: int
    reuse_distance: int
    own: bool
    group: int
    waited_barrier: int
    delay: int

    def last_acquired(self, item: Poly) -> Poly:
        """The last item of the ring that a wait for an item of `waited_barrier` acquires."""
        return self.last_of(plus(item, number(-self.delay)))

    def last_of(self, item: Poly) -> Poly:
        """The last item of the ring that an item of the barrier hands over."""
        first = plus((), plus(item, number(-self.item_shift)), self.group)
        return plus(first, number(self.group - 1))


@dataclass(frozen=True, slots=True)
class Ring:
    """A ring of stages in shared memory that engines hand to each other. `asynchronous`: whether it has asynchronous
    accesses; `copying_roles`, `storing_roles`: the roles whose copies, and whose threads, write it; `filling_roles`:
    the roles whose stores belong to the engine that fills the ring."""

    stages: int
    handovers: list[HandOver]
    asynchronous: bool
    copying_roles: set[int]
    storing_roles: set[int]
    filling_roles: set[int]

    def engine(self, role: int, writes: bool, asynchronous: bool) -> Engine:
        """The engine to which an access of a role belongs."""
        return role, writes and (asynchronous or role in self.filling_roles)

    def writes(self, engine: Engine) -> bool:
        """Whether an engine writes the ring."""
        role, fills = engine
        return fills or role in self.storing_roles - self.filling_roles

    def is_of_threads(self, engine: Engine) -> bool:
        """Whether an engine has other accesses than bulk loads: accesses by threads, or asynchronous reads."""
        return not engine[1] or engine[0] in self.filling_roles

    def handovers_to(self, engine: Engine) -> list[HandOver]:
        """The hand-overs of the ring to an engine."""
        return [row for row in self.handovers if row.acquirer == engine]


@dataclass(frozen=True, slots=True)
class ReuseOrder:
    """The reason why the accesses of a stage by a writing engine are complete before the engine writes the stage
    again. At each access of the ring, when the engine has arrived at the barrier of `row` for all items before x, its
    last wait at `waited_barrier` shows that the accesses of item x - `lag` are complete. `waited_barrier` is -1 for an
    engine that accesses each stage at most once."""

    row: HandOver
    waited_barrier: int
    lag: int


class Layout(Scheduled):
    """The part of a kernel that does not depend on the path: its roles, barriers and rings. The constructor raises
    Rejected if certificates cannot describe the schedule, or if the schedule breaks a rule on every path."""

    def __init__(self, kernel: Kernel, compilation: Any, certificate: Mapping[str, Any]) -> None:
        super().__init__(kernel, compilation)
        self.of_launch = OfLaunch(kernel)
        self.asserted = {op.condition for op in asserts(kernel)} if self.parent is not None else set[Value]()
        self.named = [isinstance(v.owner, NamedNew) for v in self.barriers]
        for v in self.barriers:
            assert isinstance(v.owner, Op)
            if v.owner.parent is not kernel.body:
                raise Rejected("a barrier is created inside a role", v.owner)
        self.offset = {(b, r): n for b, r, n in certificate["offsets"]}
        for (b, _), n in self.offset.items():
            if n != 0 and (self.named[b] or n != self.stages[b]):
                raise Rejected(
                    "waits at a barrier begin with item 0, or with the item before it in its stage"
                )
        self.lags: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for b, r, c, n in certificate["lags"]:
            if b < 0 or c < -1:
                raise Rejected("the certificate refers to a barrier that the kernel lacks")
            self.lags.setdefault((b, r), []).append((c, n))
        self.units = {b: _positive(n) for b, n in certificate["units"]}
        """By barrier, the length of an item in the unit in which lags are claimed, if the length is not 1."""
        certified_rings = {self.values[v]: (rows, set(filling)) for v, rows, filling in certificate["rings"]}
        self.elected: dict[tuple[int, int], bool] = {}
        """By barrier and role, whether one warp of the role arrives there, instead of all warps."""
        self.parts = {(b, r): (n, m) for b, r, n, m in certificate["parts"]}
        """By barrier and role, the numbers of arrivals of one warp, and of all warps, for an item, if not one alone."""
        for (b, _), (n, m) in self.parts.items():
            if self.named[b] or min(n, m) < 0 or not _positive(n + m):
                raise Rejected("a role arrives in parts at a named barrier, or in a number of parts below 0")
        self.is_rotated = bool(certificate["rotations"])
        self.tells: dict[tuple[int, int], set[int]] = {}
        """By barrier and role whose waits begin before item 0, the barriers at which the role tells of its waits."""
        self._check_arrivals()
        self.rings: dict[Value, Ring] = {}
        for v, accesses in self.accesses.items():
            uses = {(r, writes, asynchronous) for r, writes, asynchronous, _ in accesses}
            copied = any(writes and asynchronous for _, writes, asynchronous in uses)
            if copied or len({r for r, *_ in uses}) > 1 or v in certified_rings:
                self.rings[v] = self._ring(v, uses, certified_rings)
        self.overlapping = self._overlapping()
        self._reject_outside_roles({*self.rings, *self.overlapping})
        self.reuse_orders: dict[tuple[int, Engine], ReuseOrder] = {}
        """By ring and engine, the order of accesses of a stage that does not follow from program order."""
        self._check_order(certificate["chains"])
        self._check_clusters(certificate["chains"])

    def _check_arrivals(self) -> None:
        """Check O2: each barrier counts the arrivals of all roles, and the threads of a role arrive and wait
        together."""
        for op in (op for region in self.roles for op in region.walk() if op in self.uniformity.divergent):
            if any(map(self.acts, op.walk())):
                raise Rejected("threads of a role diverge around operations on barriers", op)
        for r, events in enumerate(self.order):
            for op, e in events:
                b, many = self.at(e), self.warps[r] > 1
                if isinstance(e, E.Arrive | E.NamedArrival):
                    one = isinstance(e, E.Arrive) and e.elected
                    if many and (b, r) not in self.parts and self.elected.setdefault((b, r), one) != one:
                        raise Rejected(
                            "a role arrives with one warp at this op and with all warps at another", op
                        )
                one = isinstance(e, E.Wait) and e.elected
                if isinstance(e, E.Wait | E.NamedWait) and many and not one and (b, r) in self.waits_of_one:
                    raise Rejected(
                        "a role waits for a barrier with all warps at this op and with one at another", op
                    )
        for b, v in enumerate(self.barriers):
            alone = {r: (1, 0) if self.elected.get((b, r)) else (0, 1) for r in self.arrivers[b]}
            parts = [(r, *self.parts.get((b, r), part)) for r, part in alone.items()]
            count = sum(n + m * self.warps[r] for r, n, m in parts)
            if count and count != arrivals_at(v):
                assert isinstance(v.owner, Op)
                message = f"a phase of {v.name} gets {count} arrivals, but its count is {arrivals_at(v)}"
                raise Rejected(message, v.owner)

    def stages_handed_over(self, buffer: Value) -> int:
        return self.rings[buffer].stages if buffer in self.rings else 0

    def _overlapping(self) -> dict[Value, list[int]]:
        """By buffer, the tracked buffers that a write of the buffer changes: itself, and those of the role that share
        bytes with it. Rejected where bytes of a barrier or ring, or of two roles, are shared."""
        overlapping: dict[Value, list[int]] = {}
        for v, p in self.allocations.items():
            if v not in self.rings and v not in self.tracked and v not in self.barrier:
                continue
            is_private = v in self.tracked and v not in self.rings
            for w, q in self.allocations.items():
                if p.offset >= q.offset + q.size or q.offset >= p.offset + p.size:
                    continue
                is_of_one_role = len({r for x in (v, w) for r, *_ in self.accesses.get(x, ())}) == 1
                if v is not w and not (is_private and is_of_one_role and isinstance(w.type, BufType)):
                    owner = v.owner if isinstance(v.owner, Op) else None
                    raise Rejected(f"{v.name} and {w.name} share bytes", owner)
                if is_private:
                    overlapping.setdefault(w, []).append(self.number[v])
        return overlapping

    def _reject_outside_roles(self, buffers: set[Value]) -> None:
        """Reject accesses of rings, and of sources of bulk stores, outside of roles or in ops that the verifier does
        not model."""
        for op in self.ops:
            inside = any(self._is_in(op, region) for region in self.roles)
            starts_access = any(
                e.kind == "issue" and e.value is not None and root(e.value) in buffers for e in op.effects()
            )
            has_access = any(
                isinstance(e, E.MemoryAccess)
                and e.at.buffer in buffers
                and (not inside or (op.NAME == "buf.new" and e.at.buffer in self.rings))
                for e in self.events_of(op)
            )
            if (
                (starts_access and not (inside and E.completes_copies(op)))
                or has_access
                or (not inside and self.acts(op))
            ):
                raise Rejected(
                    "an operation on a barrier or ring is outside of roles, or accesses memory of several roles",
                    op,
                )
            is_unmodelled = op.regions and not isinstance(op, CONTROL) and op is not self.parent
            if is_unmodelled and any(self.acts(o) for region in op.regions for o in region.walk()):
                raise Rejected("the verifier does not model the ops in this region", op)

    def _check_clusters(self, chains: Sequence[Any]) -> None:
        """Check that both CTAs of a cluster perform the same operations for each other, and that a stage that both
        fill is free in both."""
        shared = [op for op in self.ops if isinstance(op, BulkLoad) and op.cluster]
        if not shared and not any(self.clustered(v) for v in self.barriers):
            return
        rows = [row for ring in self.rings.values() for row in ring.handovers]
        if self.units or self.parts or any(row.group > 1 for row in rows):
            raise Rejected("a barrier hands over groups of stages, or gets parts of items, in a cluster")
        if any(row.waited_barrier != row.barrier for row in rows) or self.is_rotated:
            raise Rejected("a role hands on stages of other roles, or item 0 is not in stage 0, in a cluster")
        clusters = Clusters(self.kernel, self.pure)
        for op in self.ops:
            if (
                isinstance(op, CONTROL)
                and not clusters.is_equal_in_cluster(op)
                and any(self._has_barrier_events(o) for o in op.walk())
            ):
                raise Rejected(
                    "the two CTAs of a cluster may execute this op a different number of times", op
                )
        for op in shared:
            if problem := clusters.multicast_problem(op):
                raise Rejected(problem, op)
            ring = self.rings[root(op.buffer)]
            if not all(
                self.clustered(self.barriers[row.barrier]) for row in ring.handovers if row.acquirer[1]
            ):
                raise Rejected("a stage that both CTAs of a cluster fill may be in use in the peer CTA", op)
            known = {
                (w, r)
                for b, w, r, links in chains
                if b == self.barrier[op.barriers] and self._starts_at_cluster_barrier(links)
            }
            for r in self.arrivers[self.barrier[op.barriers]]:
                if not all((w, r) in known for w in self.waiters[self.barrier[op.barriers]]):
                    raise Rejected("the peer CTA of a cluster may still be in the previous phase", op)

    def _starts_at_cluster_barrier(self, links: Sequence[tuple[int, int]]) -> bool:
        """Whether the first wait of a chain is at a barrier of both CTAs."""
        return len(links) > 1 and self.clustered(self.barriers[links[1][0]])

    def clustered(self, barrier: Value) -> bool:
        """Whether arrivals at a barrier take place in both CTAs of a cluster."""
        return isinstance(barrier.owner, MbarrierNew) and bool(barrier.owner.cluster)

    def _has_barrier_events(self, op: Op) -> bool:
        if type(op) not in E.RULES:
            return False
        signals = (E.Wait, E.NamedWait, E.Arrive, E.NamedArrival, E.CopyIn)
        return any(isinstance(e, signals) for e in self.events_of(op))

    def _is_in(self, op: Op, region: Region) -> bool:
        """Whether an op is in a region, or in a region nested in it."""
        at = op.parent
        while at is not None and at is not region:
            at = at.parent.parent if at.parent is not None else None
        return at is not None

    def _ring(
        self, v: Value, uses: set[tuple[int, bool, bool]], certified_rings: Mapping[Value, Any]
    ) -> Ring:
        """The ring of a buffer with its hand-overs from the certificate; Rejected where a writing engine and another
        engine do not alternate. `uses`: the role of each access, whether it writes, and whether it is asynchronous."""
        op, name = v.owner, v.name or "a buffer"
        assert isinstance(op, Op)
        if v not in certified_rings or isinstance(v.type, StackType):
            raise Rejected(f"roles share {name}, and no pair of barriers hands it over", op)
        copying = {r for r, writes, asynchronous in uses if writes and asynchronous}
        storing = {r for r, writes, asynchronous in uses if writes and not asynchronous}
        rows, filling = certified_rings[v]
        handovers = [
            HandOver(
                (x, bool(f)), (y, bool(g)), b, n, m, bool(own), _positive(group), *self._handed_on(b, links)
            )
            for x, f, y, g, b, n, m, own, group, links in rows
        ]
        stages = (op.stages if isinstance(op, BufNew) else 0) or 1
        ring = Ring(stages, handovers, v in self.tracked, copying, storing, filling & storing)
        for row in handovers:
            (x, x_fills), (y, y_fills) = row.releaser, row.acquirer
            is_observed = y in self.waiters[row.waited_barrier]
            if row.own:
                is_observed = x == y and y_fills and not x_fills and row.waited_barrier == row.barrier
            if row.barrier < 0 or x not in self.arrivers[row.barrier] or not is_observed:
                raise Rejected(
                    f"a role uses {v.name}, and no hand-over shows when its accesses are complete", op
                )

        def distance(x: Engine, y: Engine) -> int:
            rows = (row for row in handovers if (row.releaser, row.acquirer) == (x, y))
            return min((row.reuse_distance for row in rows), default=2)

        engines = {ring.engine(*access) for access in uses}
        for x, y in combinations(sorted(engines), 2):
            if (ring.writes(x) or ring.writes(y)) and distance(x, y) + distance(y, x) > 1:
                raise Rejected(f"roles share {name}, and do not hand it over in turn", op)
        return ring

    def _handed_on(self, b: int, links: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """The barrier where an engine waits for what other roles hand on to it from barrier b, and the number of items
        by which its wait is later. Each link is a barrier and a role that arrives there after a wait at the barrier of
        the next link, the last one after a wait at b."""
        delay = 0
        for k, (at, role) in enumerate(links):
            before = links[k + 1][0] if k + 1 < len(links) else b
            if min(at, before) < 0 or role not in self.arrivers[at] & self.waiters[before]:
                raise Rejected("a role that hands a ring on does not arrive after a wait")
            lag, unit = dict(self.lags.get((at, role), ())).get(before), self.units.get(at, 1)
            if lag is None or unit != self.units.get(before, 1):
                raise Rejected("a role that hands a ring on may arrive before its wait")
            delay += max(0, lag // unit)
        return links[0][0] if links else b, delay

    def _check_order(self, chains: Sequence[Any]) -> None:
        """Check O4: a role that arrives for an item x knows that all waiters have waited for item x - S, where S is
        the number of stages, so that the previous phase of the stage is complete."""
        links_of = {(b, w, r): links for b, w, r, links in chains}
        totals: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for b, waiters in enumerate(self.waiters):
            for r in self.arrivers[b] if waiters else ():
                arrives_once_per_stage = (-1, 0) in self.lags.get((b, r), ())
                lags = [
                    (self.stages[b] * self.units.get(b, 1), -1)
                    if arrives_once_per_stage and not self.offset.get((b, w))
                    else self._chain(b, w, links_of.get((b, w, r)))
                    for w in waiters
                ]
                proved = [total is not None for total in lags]
                if not (any(proved) if self.named[b] else all(proved)):
                    raise Rejected(
                        f"{self.barriers[b].name} may be two phases ahead of a role that waits for it",
                        self.barriers[b].owner,  # type: ignore[arg-type]
                    )
                totals[b, r] = [total for total in lags if total is not None]
        self._find_reuse_orders(totals)

    def _chain(self, b: int, waiter: int, links: Sequence[tuple[int, int]] | None) -> tuple[int, int] | None:
        """The sum of the lags of a chain of links (barrier, arriver) that proves O4 for a waiter at b, and the barrier
        of the chain's first wait. Each arriver has waited at the barrier of the next link, the last one at b, and the
        lags sum to at most the length of all stages. If the waits begin before item 0, the lags before the last one sum
        to at most 0, so that the items on the way exist. None if the chain proves nothing."""
        total = 0
        if not links or links[0][0] != b or links[-1][1] != waiter or min(at for at, _ in links) < 0:
            return None
        for k, (at, role) in enumerate(links):
            waited_barrier = links[k + 1][0] if k + 1 < len(links) else b
            lag = dict(self.lags.get((at, role), ())).get(waited_barrier)
            if role not in self.arrivers[at] or lag is None:
                return None
            total += lag
            is_last = k + 1 == len(links)
            length = self.stages[b] * self.units.get(b, 1)
            if total > (0 if self.offset.get((b, waiter)) and not is_last else length):
                return None
        if self.offset.get((b, waiter)):
            self.tells.setdefault((b, waiter), set()).add(links[-1][0])
        return total, links[1][0] if len(links) > 1 else b

    def _find_reuse_orders(self, totals: Mapping[tuple[int, int], Sequence[tuple[int, int]]]) -> None:
        """Find, for each engine that writes a ring by copies or by several warps, the reason why its accesses of a
        stage are complete before the engine writes the stage again. Program order suffices for one warp only."""
        for v, ring in self.rings.items():
            for x in {row.releaser for row in ring.handovers}:
                role = x[0]
                if not ring.writes(x) or not (self.warps[role] > 1 or (x[1] and role in ring.copying_roles)):
                    continue
                orders = [
                    ReuseOrder(row, waited_barrier, lag // self.units.get(row.barrier, 1))
                    for row in ring.handovers
                    if row.releaser == x and not row.own
                    for lag, waited_barrier in totals[row.barrier, role]
                    if waited_barrier >= 0 or self.stages[row.barrier] * row.group <= ring.stages
                ]
                if not orders:
                    owner = v.owner if isinstance(v.owner, Op) else None
                    raise Rejected(
                        f"a role may refill a stage of {v.name or 'a buffer'} while the stage is in use",
                        owner,
                    )
                self.reuse_orders[self.number[v], x] = min(orders, key=lambda order: order.lag)


def _positive(n: Any) -> int:
    """A number of a certificate that has to be a positive integer."""
    if type(n) is not int or n < 1:
        raise Rejected("the certificate has a length that is not positive")
    return n


def part_of_stage(buffer: Value) -> tuple[int, int] | None:
    """The range of elements of a ring's stage, in row-major order, that a view with constant starts spans; None for
    other views."""
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
            if at[d] and not isinstance(op, ConstantLike):
                return None
            first = int(op.value) if isinstance(op, ConstantLike) else 0
            box[at[d]] = (box[at[d]][0] + first, sizes.get(d, 1))
        at = [at[d] for d in view.dims]
    low = high = 0
    for n, (first, size) in zip(shape[1:], box[1:], strict=True):
        low, high = low * n + first, high * n + first + size - 1
    return low, high + 1
