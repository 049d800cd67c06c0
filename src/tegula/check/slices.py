"""Backward slices of the operations on barriers and shared memory: the values that these operations depend on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tegula.dataclass import dataclass
from tegula.ir import Carrier, Kernel, LoopLike, Op, Region, Value, root
from tegula.ir.rewrite import uses
from tegula.ops import events as E
from tegula.ops.buffer import BufNew, BufRead, BufReshape, BufView
from tegula.ops.control import For, If, While, Yield
from tegula.ops.group import MmaWait, RegisterMma, SharedMma
from tegula.ops.roles import Roles
from tegula.ops.stack import StackNew
from tegula.passes.place_shared import SharedAllocation
from tegula.types import BufType, DType, StackType

MATMULS = (SharedMma, RegisterMma)
CONTROL = (If, For, While)


class ScheduleSlice:
    """The slice of a kernel: ops with events, their control flow, and the scalars that both depend on. `tracked`: the
    tracked memory; `in_flight`: tiles that matmuls in flight may write."""

    def __init__(self, kernel: Kernel, allocations: Mapping[Value, SharedAllocation]) -> None:
        self.kernel = kernel
        self.users = uses(kernel.body)
        self.tracked = tracked(allocations)
        self.in_flight = _tiles_in_flight(kernel, self.users)
        self._tracked_ops: dict[Op, bool] = {}
        self.needed = self._needed()

    def has_own_events(self, op: Op) -> bool:
        """Whether an op itself has tracked events."""
        if isinstance(op, BufRead) and not self.users.get(op.result):
            return False
        if isinstance(op, BufView | BufReshape | StackNew) or not E.has_events(op):
            return False
        memory = [v for v in _values(op) if isinstance(v.type, BufType | StackType)]
        return not memory or multiplies(op) or any(root(v) in self.tracked for v in memory)

    def has_tracked_events(self, op: Op) -> bool:
        """Whether an op, or one nested in it, has tracked events, or uses a tile of a matmul in flight."""
        if op not in self._tracked_ops:
            inner = op.regions if isinstance(op, CONTROL) else ()
            self._tracked_ops[op] = (
                self.has_own_events(op)
                or (any(v in self.in_flight for v in op.operands) and not isinstance(op, Yield))
                or any(self.has_tracked_events(o) for region in inner for o in region.ops)
            )
        return self._tracked_ops[op]

    def accesses_only(self, op: Op) -> bool:
        """Whether a control-flow op has only memory accesses as events, and no needed result."""
        acting_ops = [o for region in op.regions for o in region.walk() if self.has_own_events(o)]
        numbers = any(r in self.needed for r in op.results)
        return not numbers and all(E.accesses(o) for o in acting_ops)

    def _needed(self) -> set[Value]:
        """The scalars that the events, and their stages, depend on."""
        needed: set[Value] = set()
        queue = [
            v
            for op in _of_groups(self.kernel.body)
            if not isinstance(op, Roles) and self.has_tracked_events(op)
            for v in self._inputs(op)
        ]
        while queue:
            value = queue.pop()
            if value in needed:
                continue
            needed.add(value)
            queue += sources(value)
        return needed | self.in_flight

    def _inputs(self, op: Op) -> list[Value]:
        return op.control_operands if isinstance(op, Carrier) else numbers(op)


def multiplies(op: Op) -> bool:
    """Whether an op is a matmul on the tensor cores of warp groups."""
    return isinstance(op, MATMULS) and op.unit == "wgmma"


@dataclass(frozen=True, slots=True)
class Carried:
    """The values of a scalar that a loop carries: before the loop, in an iteration, at the end of an iteration, and
    after the loop."""

    start: Value
    argument: Value
    end: Value
    result: Value


def carried(
    op: Op, starts: Iterable[Value], args: Iterable[Value], ends: Iterable[Value], needed: set[Value]
) -> list[Carried]:
    """The scalars that a loop carries and whose results are needed."""
    rows = zip(starts, args, ends, op.results, strict=True)
    return [Carried(*row) for row in rows if row[3] in needed]


def sources(value: Value) -> list[Value]:
    """The values from which a value is computed; for a carried value also those that decide its loop's trip count."""
    owner = value.owner
    op = owner.parent if isinstance(owner, Region) else owner
    if isinstance(op, Carrier):
        carried = next((c for c in op.carried if value in c.defined_values), None)
        return [*op.control_operands, *(carried.values if carried is not None else ())]
    if isinstance(owner, Region):
        return []
    return [v for v in owner.operands if isinstance(v.type, DType)] if owner is not None else []


def numbers(op: Op) -> list[Value]:
    """The integers that the events of an op depend on: operands of the op and of the views that it accesses."""
    out: list[Value] = []
    for v in _values(op):
        while isinstance(v.owner, BufView | BufReshape):
            if isinstance(v.owner, BufView):
                out += v.owner.starts
            v = v.owner.buffer
    return out + E.stage_and_phase(op)


def _of_groups(region: Region) -> Iterator[Op]:
    """The ops that threads execute collectively, without ops of single lanes."""
    for op in region.ops:
        yield op
        if isinstance(op, (*CONTROL, Roles)):
            for inner in op.regions:
                yield from _of_groups(inner)


def _values(op: Op) -> list[Value]:
    """The operands and results of an op, and of its nested ops, unless the op is control flow of roles."""
    inner = () if isinstance(op, CONTROL) else op.walk()
    return list(dict.fromkeys(v for o in (op, *inner) for v in (*o.operands, *o.results)))


def tracked(allocations: Mapping[Value, SharedAllocation]) -> set[Value]:
    """The buffers that are not private to one role: buffers of pipes, sources of bulk stores, and buffers that share
    bytes with them or with a buffer of another role."""
    buffers = [v for v in allocations if isinstance(v.type, BufType)]
    rings = {v for v in buffers if isinstance(v.owner, BufNew) and v.owner.pipe}

    def shares(a: Value, b: Value) -> bool:
        p, q = allocations[a], allocations[b]
        return p.offset < q.offset + q.size and q.offset < p.offset + p.size

    def home(v: Value) -> Region | None:
        assert isinstance(v.owner, Op)
        at = v.owner.parent
        while at is not None and at.parent is not None and not isinstance(at.parent, Roles):
            at = at.parent.parent
        return at

    others = [
        v for v in buffers if any(v is not w and shares(v, w) and home(v) is not home(w) for w in buffers)
    ]
    cut = [v for v in buffers if any(v is not w and shares(v, w) for w in rings)]
    return {*rings, *others, *cut}


def _tiles_in_flight(kernel: Kernel, users: dict[Value, list[tuple[Op, int]]]) -> set[Value]:
    """The tiles that may be results of matmuls in flight, through block arguments too."""
    tiles: set[Value] = set()
    queue = [op.result for op in kernel.walk() if E.leaves_in_flight(op)]
    while queue:
        value = queue.pop()
        if value in tiles:
            continue
        tiles.add(value)
        for op, k in users.get(value, []):
            queue += _carried_to(op, k)
    return tiles


def _carried_to(op: Op, k: int) -> list[Value]:
    if isinstance(op, LoopLike):
        position = k - (len(op.operands) - len(op.initial))
        return [*op.carried[position].defined_values] if position >= 0 else []
    if isinstance(op, Yield) and op.parent is not None:
        around = op.parent.parent
        decides = isinstance(around, LoopLike) and op.parent is not around.body
        return [*around.carried[k].defined_values] if isinstance(around, Carrier) and not decides else []
    if isinstance(op, MmaWait):
        return [op.results[k]]
    return [op.result] if isinstance(op, MATMULS) and k == 2 else []
