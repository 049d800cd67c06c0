"""Inserts the barriers that order conflicting accesses of different threads.

A forward dataflow analysis: the state is the set of accesses since the last barrier. A barrier is inserted before an op
with an access that conflicts with the state. The state at a loop header is the join (union) of the states before the
loop and at the end of its body, iterated to a fixpoint.

Bulk stores stay in flight across a barrier. Before a conflicting op, the warp groups that issued the copies wait for
their completion, then the barrier follows; later copies of the same warp group wait without a barrier. For copies that
one thread starts, and for matmuls in flight, the kernel itself has the waits, and a barrier follows the wait."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from tegula.dataclass import dataclass
from tegula.deferred import deferred_imports
from tegula.errors import InternalError
from tegula.ir import Effect, ElementAccess, Kernel, LoopLike, MemoryFence, Op, Region, Value, root
from tegula.layout import Layout, canonical_distribution
from tegula.ops.buffer import BufNew, BufRead, BufWrite, combination, commute
from tegula.ops.control import For, If, While
from tegula.ops.events import left_in_flight, stays_in_flight
from tegula.ops.group import AsyncCopy, Barrier, StackAdvance, StackFill, StackVote
from tegula.ops.integer_ranges import IntegerRanges
from tegula.ops.lane import Lanes
from tegula.ops.roles import WARP_GROUP, Roles
from tegula.ops.schedule import BulkLoad, BulkPut, BulkStore, BulkWait
from tegula.ops.stack import StackClear, StackNew
from tegula.ops.tile import TileAtomic, TileEmpty, TileLoad, TileStore
from tegula.passes.assign_layouts import Layouts
from tegula.passes.conflict_scopes import ConflictScope, ConflictScopes, Part, TilePart, lane_parts
from tegula.passes.groups import group_of
from tegula.passes.overlap import array_root, overlap
from tegula.passes.parts import parts_disjoint, same_part
from tegula.passes.place_shared import SharedAllocation, SharedMemory
from tegula.passes.runner import GpuCompilation
from tegula.types import ArrayType, BufType

with deferred_imports():
    from tegula.passes.window import are_disjoint, never_revisits, on_a_grid, start_together, window

if TYPE_CHECKING:
    from tegula.passes.window import Window

MAX_ITERATIONS = 8
"""The maximum number of iterations until the accesses at the start of a loop are known."""


@dataclass(frozen=True, slots=True)
class BarrierAccess:
    """A read or write of a buffer, stack or array by an op. `layout`: the assignment of elements to threads, if known;
    `lane`: whether the access is in lane code; `past`: whether the access is a read of a ring before the last wait for
    the ring's copies, so that the stage may be refilled; `combination`: the combiner of an atomic; `part`: the accessed
    elements of a buffer; `synced`: whether the threads of each warp have synchronised since; `in_flight`: whether the
    access is by a copy or matmul in flight, for which the threads that started it have not waited."""

    op: Op
    kind: str
    value: Value
    layout: Layout | None = None
    lane: bool = False
    past: bool = False
    combination: str = ""
    part: Part | None = None
    synced: bool = False
    in_flight: bool = False

    def __hash__(self) -> int:
        """A hash of the fields that differ most; accesses are hashed often."""
        return hash((self.op, self.kind, self.value))


@dataclass(frozen=True, slots=True)
class Clash:
    """Two accesses that need a barrier between them. `copies`: whether a wait for earlier copies is needed as well;
    `of_warps`: whether a synchronisation of each warp suffices."""

    before: BarrierAccess
    after: BarrierAccess
    copies: bool = False
    of_warps: bool = False

    def unordered(self, pending: list[BarrierAccess]) -> list[BarrierAccess]:
        """The pending accesses that the barrier does not order before later accesses."""
        if self.of_warps:
            return [replace(a, synced=True) for a in pending]
        return [a for a in pending if a.in_flight] if self.copies else _copied(pending)


Needed: TypeAlias = dict[Op, Clash]
"""The ops that need a barrier before them, each with the conflict that is the reason."""


def insert_barriers(kernel: Kernel, context: GpuCompilation) -> None:
    """Rewrite the kernel in place."""
    _insert(kernel.body, needed_barriers(kernel, context))
    context.barriers = None


def needed_barriers(kernel: Kernel, context: GpuCompilation) -> Needed:
    """The ops that need a barrier before them, given the current placement of buffers in shared memory."""
    analysis = context.barriers = context.barriers or BarrierAnalysis(kernel, context)
    return analysis.needed(context.shared)


class BarrierAnalysis:
    """Finds the barriers that a kernel needs. The accesses and the scopes of conflicts, which do not depend on the
    placement of buffers, are found once, and so are the barriers of each placement."""

    def __init__(self, kernel: Kernel, context: GpuCompilation) -> None:
        self.kernel = kernel
        self.threads = context.threads
        self.layouts: Layouts = context.layouts
        self.allocations: dict[Value, SharedAllocation] = context.shared.allocations
        self.conflict_scopes = ConflictScopes(kernel, context.uniformity)
        self.barriers: list[tuple[SharedMemory, Needed]] = []
        self.clashes: dict[tuple[int, int], tuple[BarrierAccess, BarrierAccess, Clash | None]] = {}
        """The conflict of each pair of accesses that was compared, by their identities, with the current placement."""
        self.accesses_of: dict[Op, list[BarrierAccess]] = {}
        self.windows: dict[Op, Window | None] = {}
        self.ranges = IntegerRanges(kernel.launch)

    def needed(self, shared: SharedMemory) -> Needed:
        """The ops that need a barrier before them, with this placement of buffers."""
        for placement, barriers in self.barriers:
            if placement is shared:
                return barriers
        needed: Needed = {}
        self.allocations, self.clashes = shared.allocations, {}
        self.region(self.kernel.body, [], needed)
        self.barriers.append((shared, needed))
        return needed

    def region(self, region: Region, pending: list[BarrierAccess], needed: Needed) -> list[BarrierAccess]:
        """The accesses since the last barrier at the end of a region. Ops that need a barrier are added to `needed`."""
        for op in region.ops:
            pending = self.op(op, pending, needed)
        return pending

    def op(self, op: Op, pending: list[BarrierAccess], needed: Needed) -> list[BarrierAccess]:
        """The accesses since the last barrier after an op."""
        if isinstance(op, If):
            return self.branches(op, pending, needed)
        if isinstance(op, LoopLike):
            return self.loop(op, pending, needed)
        if isinstance(op, Roles):
            for region in op.roles:
                self.region(region, [], needed)
            return []
        if op not in self.accesses_of:
            self.accesses_of[op] = list(self.accesses(op))
        accesses = self.accesses_of[op]
        pending = _waited(pending, op)
        if not accesses:
            return pending
        clash = _widest(clash for a in pending for b in accesses if (clash := self.clash(a, b)) is not None)
        if clash is not None:
            copies = any(self.clash(a, b) is not None for a in _copied(pending) for b in accesses)
            needed[op] = clash = replace(clash, copies=copies)
            pending = clash.unordered(pending)
        return _union(self._mark_past_reads(pending, accesses), accesses)

    def _mark_past_reads(
        self, pending: list[BarrierAccess], accesses: list[BarrierAccess]
    ) -> list[BarrierAccess]:
        """The pending accesses; reads of rings for whose copies the new accesses wait are marked `past`."""
        waited = {self._memory(a.value) for a in accesses if a.kind == "arrive"}
        if not waited:
            return pending
        return [
            replace(a, past=True) if a.kind == "read" and self._memory(a.value) in waited else a
            for a in pending
        ]

    def branches(self, op: If, pending: list[BarrierAccess], needed: Needed) -> list[BarrierAccess]:
        """A barrier that orders accesses before the branch is placed before the branch, so that all threads reach
        it."""
        barriers: Needed = {}
        ends = [self.region(r, list(pending), barriers) for r in op.alternatives]
        earlier = [
            c for c in barriers.values() if c.before in pending or replace(c.before, synced=False) in pending
        ]
        clash = _widest(earlier)
        if clash is None:
            needed.update(barriers)
            return _union(*ends)
        needed[op] = clash = replace(clash, copies=any(clash.copies for clash in earlier))
        unordered = clash.unordered(pending)
        return _union(*(self.region(r, list(unordered), needed) for r in op.alternatives))

    def loop(self, op: LoopLike, pending: list[BarrierAccess], needed: Needed) -> list[BarrierAccess]:
        """The accesses since the last barrier after a loop, whose iterations are repeated to a fixpoint."""
        entry = pending
        for _ in range(MAX_ITERATIONS):
            barriers: Needed = {}
            end = entry
            for region in (*op.headers, op.body):
                end = self.region(region, list(end), barriers)
            after_loop = _union(entry, end)
            if len(after_loop) == len(entry):
                needed.update(barriers)
                return self._after(op, pending, entry, end)
            entry = after_loop
        raise InternalError(f"the barriers of the loop at {op.loc} have no fixed point")

    def _after(
        self, op: LoopLike, before: list[BarrierAccess], entry: list[BarrierAccess], end: list[BarrierAccess]
    ) -> list[BarrierAccess]:
        """The pending accesses after a loop, which may have had no iteration."""
        if isinstance(op, While):
            return _union(entry, self.region(op.condition, list(entry), {}))
        has_iterations = isinstance(op, For) and bool(op.positions)
        return end if has_iterations else _union(before, end)

    # Accesses --------------------------------------------------------------------------------------------------------

    def accesses(self, op: Op) -> Iterator[BarrierAccess]:
        """The accesses of an op without nested accesses, or of the lanes of a `lanes` op."""
        if isinstance(op, Lanes):
            yield from self._of_lanes(op)
            return
        if isinstance(op, BufNew) and isinstance(op.tile.owner, TileEmpty):
            return
        if isinstance(op, MemoryFence):
            yield from self._of_fence(op)
        layout = self._layout(op)
        for e in op.effects():
            if e.value is not None and not _of_earlier_warps(op, e) and not _of_pipe(e.value):
                layout_of = layout if _shared(e.value) else None
                part = TilePart(e.value, layout_of, e.kind != "read") if layout_of is not None else None
                access = BarrierAccess(
                    op, *_kind_and_value(e), layout, combination=_combination(op, e), part=part
                )
                yield replace(access, in_flight=stays_in_flight(op))

    def _of_lanes(self, op: Lanes) -> Iterator[BarrierAccess]:
        """The accesses of a `lanes` op. With several warps, an element access of a buffer keeps its index forms, so
        that accesses of different warps can be distinguished."""
        several_warps = group_of(op, self.threads).warps > 1
        for inner in op.body.walk():
            if isinstance(inner, MemoryFence):
                yield from self._of_fence(op)
            for e in inner.effects():
                if e.value is not None and not (
                    several_warps and isinstance(inner, ElementAccess) and _shared(e.value)
                ):
                    yield BarrierAccess(
                        op, *_kind_and_value(e), lane=True, combination=_combination(inner, e)
                    )
        for kind, part in lane_parts(op) if several_warps else ():
            operation = combination(part.access.op) if kind == "atomic" else ""
            yield BarrierAccess(op, kind, part.buffer, lane=True, combination=operation, part=part)

    def _of_fence(self, op: Op) -> Iterator[BarrierAccess]:
        """The accesses of a fence of lanes, which counts as a write of all arrays and so separates the accesses of
        cooperative ops."""
        for array in self.kernel.params:
            if isinstance(array.type, ArrayType):
                yield BarrierAccess(op, "write", array, lane=True)

    def _layout(self, op: Op) -> Layout | None:
        """The layout that maps threads to the accessed elements of a buffer, a view, or a window of an array."""
        if isinstance(op, BufNew | TileStore | TileAtomic | BufWrite | BulkStore):
            return self.layouts[op.tile]
        if isinstance(op, TileLoad | BufRead):
            return self.layouts[op.result]
        return None

    def clash(self, a: BarrierAccess, b: BarrierAccess) -> Clash | None:
        """The conflict of two accesses that needs a barrier between them; None if there is none. Accesses in loops are
        compared several times."""
        known = self.clashes.get((id(a), id(b)))
        if known is None:
            known = self.clashes[id(a), id(b)] = a, b, self._clash(a, b)
        return known[2]

    def _clash(self, a: BarrierAccess, b: BarrierAccess) -> Clash | None:
        if not self.conflict(a, b):
            return None
        scope = ConflictScope.GROUP
        if a.part is not None and b.part is not None and not {"issue", "arrive"} & {a.kind, b.kind}:
            scope = self.conflict_scopes.of(a.part, b.part, b.op)
        if scope is ConflictScope.THREAD or (scope is ConflictScope.WARP and a.synced):
            return None
        # A single warp that synchronises leaves no pending accesses.
        return Clash(a, b, of_warps=scope is ConflictScope.WARP and group_of(b.op, self.threads).warps > 1)

    def conflict(self, a: BarrierAccess, b: BarrierAccess) -> bool:
        """Whether two threads may access the same bytes, and one access is a write."""
        if not _clashes(a, b) or a.in_flight or self._of_this_iteration(a, b) or isinstance(a.op, BulkLoad):
            return False  # the mbarrier that counts a bulk load's bytes orders the load before its readers
        if not isinstance(a.value.type, ArrayType) and not isinstance(b.value.type, ArrayType):
            return self._share_bytes(a, b)
        if not (isinstance(a.value.type, ArrayType) and isinstance(b.value.type, ArrayType)):
            return False
        if a.lane and b.lane:
            return False
        first, second = array_root(a.value), array_root(b.value)
        if first is second:
            return not self._own_elements(a, b)
        return overlap(self.kernel, first, second)

    def _of_this_iteration(self, a: BarrierAccess, b: BarrierAccess) -> bool:
        """Whether a read of a ring is followed by a copy to another stage of the ring."""
        ahead = a.kind == "read" and isinstance(b.op, AsyncCopy) and b.kind == "issue" and bool(b.op.ahead)
        return ahead and not a.past and self._memory(a.value) is self._memory(b.value)

    def _own_elements(self, a: BarrierAccess, b: BarrierAccess) -> bool:
        """Whether two tile accesses of an array access different elements, or each element by one thread."""
        first, second = self._window(a.op), self._window(b.op)
        if first is None or second is None:
            return False
        if _is_same_thread(a, b) and self._always_own(a, b, first, second):
            return True
        if start_together(first, second):
            return (a.op is b.op or _is_same_thread(a, b)) and never_revisits(
                a.op, b.op, first, second, self.ranges
            )
        return are_disjoint(a.op, b.op, first, second)

    def _always_own(self, a: BarrierAccess, b: BarrierAccess, first: Window, second: Window) -> bool:
        """Whether each element that both access, in any iterations, belongs to one thread, or for bulk copies to one
        warp group, which waits for its own earlier copies."""
        copies = isinstance(a.op, BulkStore)
        if a.layout is None or copies != isinstance(b.op, BulkStore):
            return False
        # Indices of views are dimensions of length 1.
        dims = [d for d, n in enumerate(a.layout.shape) if n > 1]
        intervals = [(x, y) for x, y in zip(first, second, strict=True) if x.length > 1 or y.length > 1]
        if len(intervals) != len(dims):
            return False
        split = a.layout.split_by(WARP_GROUP if copies else 1)
        return all(
            on_a_grid(a.op, b.op, *pair, self.ranges)
            for d, pair in zip(dims, intervals, strict=True)
            if d in split
        )

    def _window(self, op: Op) -> Window | None:
        if op not in self.windows:
            self.windows[op] = window(op)
        return self.windows[op]

    def _share_bytes(self, a: BarrierAccess, b: BarrierAccess) -> bool:
        first, second = self._memory(a.value), self._memory(b.value)
        if first is second:
            return not (_by_one_thread(a, b) or _access_own_parts(a, b))
        p, q = self.allocations[first], self.allocations[second]
        return p.offset < q.offset + q.size and q.offset < p.offset + p.size

    def _memory(self, value: Value) -> Value:
        return root(value) if isinstance(value.type, BufType) else value


def _widest(clashes: Iterable[Clash]) -> Clash | None:
    """The first conflict for which the whole group must synchronise, else the first one; None if there is none."""
    widest: Clash | None = None
    for clash in clashes:
        if not clash.of_warps:
            return clash
        widest = widest or clash
    return widest


def _shared(value: Value) -> bool:
    return isinstance(value.type, BufType)


def _is_same_thread(a: BarrierAccess, b: BarrierAccess) -> bool:
    """Whether, in two accesses with the same placement of elements, each thread accesses the same elements, and no
    other thread accesses them."""
    if a.layout is None or b.layout is None:
        return False
    return canonical_distribution(a.layout, a.kind != "read") == canonical_distribution(
        b.layout, b.kind != "read"
    )


def _access_own_parts(a: BarrierAccess, b: BarrierAccess) -> bool:
    """Whether two accesses of one buffer are of different elements, or each thread accesses only its own elements."""
    if not (isinstance(a.value.type, BufType) and isinstance(b.value.type, BufType)):
        return False
    return (_is_same_thread(a, b) and same_part(a.value, b.value)) or parts_disjoint(a.value, b.value)


def _copied(accesses: list[BarrierAccess]) -> list[BarrierAccess]:
    """The accesses by asynchronous copies, which may still be in flight after a barrier."""
    return [a for a in accesses if isinstance(a.op, BulkStore) or a.in_flight]


def _waited(pending: list[BarrierAccess], op: Op) -> list[BarrierAccess]:
    """The pending accesses after an op that may wait for those in flight. An access that the wait may complete is
    complete for the waiting threads alone, so that a barrier must follow; it may also still be in flight, unless the
    wait is for all."""
    if not any([access.in_flight for access in pending]):
        return pending
    out: list[BarrierAccess] = []
    for access in pending:
        left = left_in_flight(op, access.op, access.kind != "read") if access.in_flight else None
        if left != 0:
            out.append(access)
        if left is not None:
            out.append(replace(access, in_flight=False))
    return _union(out)


STACK_COUNT_WRITES = (StackNew, StackClear, StackAdvance)
"""The ops by which the first thread writes the count of a stack."""
COPIES = (BulkLoad, BulkPut)
"""The ops by which one thread starts copies."""


def _by_one_thread(a: BarrierAccess, b: BarrierAccess) -> bool:
    """Whether the same thread makes each of two accesses."""
    for ops in (STACK_COUNT_WRITES, COPIES):
        if isinstance(a.op, ops) and isinstance(b.op, ops):
            return True
    if _is_in_one_warp(a.value) and all(isinstance(x.op, StackVote | StackAdvance) for x in (a, b)):
        return True
    return a.op is b.op and isinstance(a.op, StackVote)


def _is_in_one_warp(value: Value) -> bool:
    """Whether a buffer has one number for each warp, and the group has a single warp."""
    return isinstance(value.type, BufType) and value.type.shape == (1,)


def _of_pipe(value: Value) -> bool:
    """Whether mbarriers order all accesses of a buffer. For hand-written rings they order those of different
    roles."""
    owner = root(value).owner if isinstance(value.type, BufType) else None
    return isinstance(owner, BufNew) and bool(owner.pipe) and not owner.by_hand


def _of_earlier_warps(op: Op, effect: Effect) -> bool:
    """Whether an op reads values of lower-numbered warps in a group of a single warp, which has none."""
    reads = isinstance(op, StackFill) and effect.kind == "read"
    return reads and effect.value is not None and _is_in_one_warp(effect.value)


def _clashes(a: BarrierAccess, b: BarrierAccess) -> bool:
    """Whether two kinds of access need an order. A copy is issued into a stage that no thread reads any more, and
    writes the stage until it completes; reads in between are of other stages, by construction of the ring."""
    before, after = a.kind, b.kind
    if "issue" in (before, after) or "arrive" in (before, after):
        return (before, after) in (
            ("read", "issue"),
            ("write", "issue"),
            ("atomic", "issue"),
            ("arrive", "read"),
        )
    if before == after == "atomic":
        return not commute(a.combination, b.combination)
    return not before == after == "read"


def _combination(op: Op, effect: Effect) -> str:
    return combination(op) if effect.kind == "atomic" else ""


def _kind_and_value(effect: Effect) -> tuple[str, Value]:
    assert effect.value is not None
    return effect.kind, effect.value


def _union(*lists: list[BarrierAccess]) -> list[BarrierAccess]:
    return list(dict.fromkeys(a for accesses in lists for a in accesses))


def _insert(region: Region, needed: Needed) -> None:
    out: list[Op] = []
    for op in region.ops:
        if op in needed:
            clash = needed[op]
            before, after = clash.before, clash.after
            if clash.copies:
                out.append(BulkWait([], [], {"read": False}, [], op.loc))
                out[-1].parent = region
            attrs: dict[str, object] = {"of_warps": True} if clash.of_warps else {}
            reason = f"{after.op.NAME} {_verb(after)} what {before.op.NAME} {_verb(before)}"
            barrier = Barrier([], [], {"reason": reason, **attrs}, [], op.loc)
            barrier.parent = region
            out.append(barrier)
        if isinstance(op, If | For | While | Roles):
            for nested in op.regions:
                _insert(nested, needed)
        out.append(op)
    region.ops = out


def _verb(access: BarrierAccess) -> str:
    verbs = {
        "read": "reads",
        "write": "writes",
        "atomic": "updates",
        "issue": "fills",
        "arrive": "waited for",
    }
    return verbs[access.kind]
