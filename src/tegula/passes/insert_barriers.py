"""Barriers where a thread may touch what another has touched, and nowhere else.

The pass walks the kernel in order and keeps the accesses since the last barrier. An op whose accesses conflict with one
of them gets a barrier before it. A loop is walked with what its body leaves behind added to what comes before it, until
that no longer changes.

Copies that store a tile go on behind a barrier. Before an op that must come after them their warp groups wait for them
first; each group's own later copies wait by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias

from tegula.dataclass import dataclass
from tegula.errors import InternalError
from tegula.ir import Effect, Kernel, Op, Region, Value
from tegula.layout import Layout, taking_part
from tegula.ops.base import TileOp
from tegula.ops.buffer import BufNew, BufRead, BufWrite, combination, commute
from tegula.ops.control import For, If, While
from tegula.ops.group import AddPrefix, Barrier, PartialScan, StackAdvance, StackFill, StackVote
from tegula.ops.lane import Lanes
from tegula.ops.roles import WARP_GROUP, Roles
from tegula.ops.scalar import Const
from tegula.ops.schedule import BulkLoad, BulkPut, BulkStore, BulkWait
from tegula.ops.stack import StackClear, StackNew
from tegula.ops.tile import TileAtomic, TileEmpty, TileLoad, TileStore
from tegula.passes.assign_layouts import Layouts
from tegula.passes.overlap import array_root, overlap
from tegula.passes.parts import parts_apart, same_part
from tegula.passes.place_shared import Place
from tegula.passes.promote_buffers import root
from tegula.passes.window import Window, apart, moves_on, on_a_grid, same_in_all, window
from tegula.types import ArrayType, BufType

ROUNDS = 8


@dataclass(frozen=True, slots=True)
class Access:
    """An op reads or writes the memory of a buffer, stack or array. `layout`: which thread touches which element, where
    that is known; `lane`: whether each lane does so on its own; `past`: a read of a ring of stages before the last wait
    for its copies, thus of a stage that may be filled anew; `combination`: how an atomic one combines elements."""

    op: Op
    kind: str
    value: Value
    layout: Layout | None = None
    lane: bool = False
    past: bool = False
    combination: str = ""


@dataclass(frozen=True, slots=True)
class Clash:
    """Two accesses that need a barrier between them. `copies`: where copies before it are waited for too."""

    before: Access
    after: Access
    copies: bool = False


Needed: TypeAlias = dict[Op, Clash]
"""What needs a barrier before it."""


def insert_barriers(kernel: Kernel, layouts: Layouts, places: dict[Value, Place]) -> None:
    """Rewrite the kernel in place."""
    walk = _Walk(kernel, layouts, places)
    needed: Needed = {}
    walk.region(kernel.body, [], needed)
    _insert(kernel.body, needed)


class _Walk:
    def __init__(self, kernel: Kernel, layouts: Layouts, places: dict[Value, Place]) -> None:
        self.kernel = kernel
        self.layouts = layouts
        self.places = places
        self.windows: dict[Op, Window | None] = {}

    def region(self, region: Region, pending: list[Access], needed: Needed) -> list[Access]:
        """The accesses since the last barrier, after the region; ops that need a barrier before them are noted."""
        for op in region.ops:
            pending = self.op(op, pending, needed)
        return pending

    def op(self, op: Op, pending: list[Access], needed: Needed) -> list[Access]:
        if isinstance(op, If):
            return self.branches(op, pending, needed)
        if isinstance(op, For | While):
            return self.loop(op, pending, needed)
        if isinstance(op, Roles):
            for region in op.regions:
                self.region(region, [], needed)
            return []
        fresh = list(self.accesses(op))
        clash = next((Clash(a, b) for a in pending for b in fresh if self.conflict(a, b)), None)
        if clash is not None:
            copies = any(self.conflict(a, b) for a in _copied(pending) for b in fresh)
            needed[op] = replace(clash, copies=copies)
            pending = [] if copies else _copied(pending)
        return _union(self._aged(pending, fresh), fresh)

    def _aged(self, pending: list[Access], fresh: list[Access]) -> list[Access]:
        """Pending accesses, with the reads of rings that are waited for now in the past."""
        waited = {self._memory(a.value) for a in fresh if a.kind == "arrive"}
        if not waited:
            return pending
        return [
            replace(a, past=True) if a.kind == "read" and self._memory(a.value) in waited else a
            for a in pending
        ]

    def branches(self, op: Op, pending: list[Access], needed: Needed) -> list[Access]:
        """Where a branch needs a barrier because of what came before, it stands before both."""
        found: Needed = {}
        ends = [self.region(r, list(pending), found) for r in op.regions]
        earlier = [clash for clash in found.values() if clash.before in pending]
        if not earlier:
            needed.update(found)
            return _union(*ends)
        copies = any(clash.copies for clash in earlier)
        needed[op] = replace(earlier[0], copies=copies)
        left = [] if copies else _copied(pending)
        return _union(*(self.region(r, list(left), needed) for r in op.regions))

    def loop(self, op: Op, pending: list[Access], needed: Needed) -> list[Access]:
        entry = pending
        for _ in range(ROUNDS):
            found: Needed = {}
            end = entry
            for region in op.regions:
                end = self.region(region, list(end), found)
            wanted = _union(entry, end)
            if len(wanted) == len(entry):
                needed.update(found)
                return self._after(op, pending, entry, end)
            entry = wanted
        raise InternalError(f"the barriers of the loop at {op.loc} do not settle")

    def _after(self, op: Op, before: list[Access], entry: list[Access], end: list[Access]) -> list[Access]:
        """What a loop leaves behind, which may have had no round."""
        if isinstance(op, While):
            return _union(entry, self.region(op.regions[0], list(entry), {}))
        return end if _runs(op) else _union(before, end)

    # Accesses --------------------------------------------------------------------------------------------------------

    def accesses(self, op: Op) -> Iterator[Access]:
        assert isinstance(op, TileOp)
        if isinstance(op, Lanes):
            for inner in op.walk():
                if inner is not op:
                    assert isinstance(inner, TileOp)
                    yield from (
                        Access(op, *_parts(e), lane=True, combination=_combination(inner, e))
                        for e in inner.effects()
                        if e.value is not None
                    )
            return
        if isinstance(op, BufNew) and isinstance(op.operands[0].owner, TileEmpty):
            return
        layout = self._layout(op)
        for e in op.effects():
            if e.value is not None and not _of_earlier_warps(op, e) and not _of_pipe(e.value):
                yield Access(op, *_parts(e), layout=layout, combination=_combination(op, e))

    def _layout(self, op: Op) -> Layout | None:
        """Which thread touches what of a buffer, its view, or a window of an array."""
        if isinstance(op, BufNew):
            return self.layouts[op.operands[0]]
        if isinstance(op, TileStore | TileAtomic | BufWrite):
            return self.layouts[op.operands[1]]
        if isinstance(op, BulkStore):
            return self.layouts[op.operands[2]]
        if isinstance(op, TileLoad | BufRead):
            return self.layouts[op.result]
        return None

    def conflict(self, a: Access, b: Access) -> bool:
        """Whether two threads may touch the same bytes, one of them writing."""
        if not _clashes(a, b) or self._of_this_round(a, b) or isinstance(a.op, BulkLoad):
            return False  # what a copy brings is waited for at the barrier that counts its bytes
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

    def _of_this_round(self, a: Access, b: Access) -> bool:
        """Whether a read of a ring is followed by a copy to another stage of it."""
        ahead = a.kind == "read" and b.kind == "issue" and b.op.attrs["ahead"]
        return ahead and not a.past and self._memory(a.value) is self._memory(b.value)

    def _own_elements(self, a: Access, b: Access) -> bool:
        """Whether two accesses of an array by tiles touch different elements, or each thread its own."""
        first, second = self._window(a.op), self._window(b.op)
        if first is None or second is None:
            return False
        if _own(a, b) and self._always_own(a, b, first, second):
            return True
        if same_in_all(first, second):
            return (a.op is b.op or _own(a, b)) and moves_on(a.op, b.op, first, second)
        return apart(a.op, b.op, first, second)

    def _always_own(self, a: Access, b: Access, first: Window, second: Window) -> bool:
        """Whether an element that both touch, in whatever rounds, is one thread's, or where copies store it one warp
        group's: those wait for their own earlier ones."""
        copies = isinstance(a.op, BulkStore)
        if a.layout is None or copies != isinstance(b.op, BulkStore):
            return False
        # Indices of views are dimensions of length 1.
        dims = [d for d, n in enumerate(a.layout.shape) if n > 1]
        pairs = [(x, y) for x, y in zip(first, second, strict=True) if x.length > 1 or y.length > 1]
        if len(pairs) != len(dims):
            return False
        split = a.layout.split_by(WARP_GROUP if copies else 1)
        return all(on_a_grid(a.op, b.op, *pair) for d, pair in zip(dims, pairs, strict=True) if d in split)

    def _window(self, op: Op) -> Window | None:
        if op not in self.windows:
            self.windows[op] = window(op)
        return self.windows[op]

    def _share_bytes(self, a: Access, b: Access) -> bool:
        first, second = self._memory(a.value), self._memory(b.value)
        if first is second:
            return not (_by_one_thread(a, b) or _other_parts(a, b))
        p, q = self.places[first], self.places[second]
        return p.offset < q.offset + q.size and q.offset < p.offset + p.size

    def _memory(self, value: Value) -> Value:
        return root(value) if isinstance(value.type, BufType) else value


def _own(a: Access, b: Access) -> bool:
    """Whether each thread touches the same elements in two accesses that agree about where they are, and no other
    thread does."""
    if a.layout is None or b.layout is None:
        return False
    return taking_part(a.layout, a.kind != "read") == taking_part(b.layout, b.kind != "read")


def _other_parts(a: Access, b: Access) -> bool:
    """Whether two accesses of one object touch different elements, or each thread its own."""
    if not (isinstance(a.value.type, BufType) and isinstance(b.value.type, BufType)):
        return False
    return (_own(a, b) and same_part(a.value, b.value)) or parts_apart(a.value, b.value)


def _copied(accesses: list[Access]) -> list[Access]:
    """Those by copies that may be on their way still, also behind a barrier."""
    return [a for a in accesses if isinstance(a.op, BulkStore)]


BY_ONE_THREAD = (StackNew, StackClear, StackAdvance)
"""Ops that write the count of a stack, all by the first thread."""
COPIES = (BulkLoad, BulkPut)
"""Ops that start copies, all by one thread."""


def _by_one_thread(a: Access, b: Access) -> bool:
    """Whether the same thread makes each of two accesses."""
    for ops in (BY_ONE_THREAD, COPIES):
        if isinstance(a.op, ops) and isinstance(b.op, ops):
            return True
    return a.op is b.op and isinstance(a.op, PartialScan | StackVote)


def _of_pipe(value: Value) -> bool:
    """Whether memory barriers order all that is done to a buffer. In rings that are used by hand they order what roles
    do to each other."""
    owner = root(value).owner if isinstance(value.type, BufType) else None
    return isinstance(owner, BufNew) and bool(owner.attrs.get("pipe")) and not owner.attrs.get("by_hand")


def _of_earlier_warps(op: Op, effect: Effect) -> bool:
    """Whether an op reads what earlier warps have written, of which there are none."""
    if not isinstance(op, AddPrefix | StackFill | StackAdvance) or effect.kind != "read":
        return False
    t = effect.value.type if effect.value is not None else None
    return isinstance(t, BufType) and t.shape == (1,)


def _runs(loop: Op) -> bool:
    """Whether a loop is known to have a round."""
    known = [v.owner.attrs["value"] for v in loop.operands[:3] if isinstance(v.owner, Const)]
    return len(known) == 3 and bool(range(*known))


def _clashes(a: Access, b: Access) -> bool:
    """Whether two kinds of access need an order. A copy in flight is issued into memory that nobody reads any more, and
    fills it when it arrives: what is read between the two lies elsewhere, by construction of its stages."""
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


def _combination(op: TileOp, effect: Effect) -> str:
    return combination(op) if effect.kind == "atomic" else ""


def _parts(effect: Effect) -> tuple[str, Value]:
    assert effect.value is not None
    return effect.kind, effect.value


def _union(*lists: list[Access]) -> list[Access]:
    return list(dict.fromkeys(a for some in lists for a in some))


def _insert(region: Region, needed: Needed) -> None:
    out: list[Op] = []
    for op in region.ops:
        if op in needed:
            clash = needed[op]
            before, after = clash.before, clash.after
            if clash.copies:
                out.append(BulkWait([], [], {"read": False}, [], op.loc))
                out[-1].parent = region
            reason = f"{after.op.NAME} {_verb(after)} what {before.op.NAME} {_verb(before)}"
            barrier = Barrier([], [], {"reason": reason}, [], op.loc)
            barrier.parent = region
            out.append(barrier)
        if isinstance(op, If | For | While | Roles):
            for nested in op.regions:
                _insert(nested, needed)
        out.append(op)
    region.ops = out


def _verb(access: Access) -> str:
    verbs = {
        "read": "reads",
        "write": "writes",
        "atomic": "updates",
        "issue": "fills",
        "arrive": "waited for",
    }
    return verbs[access.kind]
