"""The event table: the events of each scheduled op, in terms of the PTX manual ("PTX ISA", sections named below).

The checker has no other model of ops; the replay of schedules in the interpreter uses the same table. An op without an
entry accesses shared memory by ordinary loads and stores, according to its declared effects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Protocol, TypeAlias, TypeVar

from tegula.dataclass import dataclass
from tegula.ir import ConstantLike, Op, ReshapeLike, Value
from tegula.ops.buffer import BufGet, BufNew, BufRead, BufSet, BufView, BufWrite, root
from tegula.ops.group import (
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    Barrier,
    GroupMma,
    MmaWait,
    RegisterMma,
    SharedMma,
)
from tegula.ops.lane import Lanes
from tegula.ops.schedule import (
    BulkCommit,
    BulkLoad,
    BulkPut,
    BulkStore,
    BulkWait,
    FenceAsync,
    MbarrierArrive,
    MbarrierExpect,
    MbarrierWait,
    NamedArrive,
    NamedSync,
    ScheduleOp,
)
from tegula.ops.tile import TileEmpty, TileExtract, TileFull
from tegula.types import BufType, StackType, TileType, element_bytes

GENERIC, ASYNC = "generic", "async"
"""The proxies: ordinary loads and stores; bulk copies, tensor cores. PTX ISA, "Memory Consistency Model: Proxies"."""


@dataclass(frozen=True, slots=True)
class Bytes:
    """A range of bytes of a buffer in shared memory. `stage`: the stage of a ring, -1 for other buffers."""

    start: int
    end: int
    buffer: Value
    stage: int = -1


@dataclass(frozen=True, slots=True)
class Wait:
    """Each thread, or (`elected`) each thread of the first warp, waits until the phase with the given parity has ended,
    that is until the barrier is in a phase of the other parity. PTX ISA, "mbarrier.test_wait, mbarrier.try_wait"
    (`.parity`)."""

    barrier: Value
    stage: int
    parity: int
    elected: bool = False


@dataclass(frozen=True, slots=True)
class Arrive:
    """One arrival of each warp, or (`elected`) of only the group's first warp, after an announcement of `bytes`. The
    thread's earlier accesses are visible to threads that wait for the phase. PTX ISA, "mbarrier.arrive", "expect-tx
    operation"."""

    barrier: Value
    stage: int
    elected: bool = False
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class CopyIn:
    """The first warp starts a copy that writes shared memory through the async proxy, at any time until the copy
    completes on the barrier, which then counts the copied bytes. Out-of-bounds elements are written too, as zeros. PTX
    ISA, "cp.async.bulk.tensor", "Tensor access modes: out of bound access"."""

    to: Bytes
    barrier: Value
    stage: int
    bytes: int


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """Loads (`write` false) or stores of a buffer, distributed over the threads of the group. `warp_group`: each warp
    group accesses its own slots, and `at` is the slot of the first group. `number`: the tile that a store copies to all
    of a stage or the number that it copies to an element, or what a load returns. `element`: the element of the stage
    that is known to be accessed, in row-major order; -1 for all elements, or an unknown one."""

    at: Bytes
    write: bool
    warp_group: bool = False
    number: Value | None = None
    element: int = -1


@dataclass(frozen=True, slots=True)
class Fence:
    """Orders this thread's earlier accesses through the generic proxy before later accesses through the async proxy.
    PTX ISA, "membar, fence" (`fence.proxy.async`)."""


@dataclass(frozen=True, slots=True)
class Issue:
    """Tensor cores start a matmul, which reads shared memory through the async proxy until a wait covers its group.
    Each warp's part is one group. PTX ISA, "wgmma.mma_async", "wgmma.commit_group"."""

    operands: tuple[Bytes, ...]


@dataclass(frozen=True, slots=True)
class MmaComplete:
    """Waits until at most `pending` groups of this warp's matmuls are unfinished. PTX ISA, "wgmma.wait_group"."""

    pending: int


@dataclass(frozen=True, slots=True)
class Sync:
    """A barrier of the threads of the group, or of the threads of each warp group. PTX ISA, "bar, barrier"."""

    warp_group: bool = False


@dataclass(frozen=True, slots=True)
class CopyOut:
    """The first warp starts a bulk store, which reads shared memory through the async proxy. The store is committed as
    its own bulk group or, if `commit` is false, belongs to the group that is committed next. `warp_group`: the first
    warp of each warp group starts a store, from slots as in `MemoryAccess`. PTX ISA, "cp.async.bulk.tensor",
    "cp.async.bulk.commit_group"."""

    source: Bytes
    commit: bool = True
    warp_group: bool = False


@dataclass(frozen=True, slots=True)
class Commit:
    """The first warp commits a bulk group of stores. PTX ISA, "cp.async.bulk.commit_group"."""


@dataclass(frozen=True, slots=True)
class CopiesOutDone:
    """Waits until at most `pending` bulk groups of this thread still read their source. PTX ISA,
    "cp.async.bulk.wait_group" (without `.read`, the other groups have also written)."""

    pending: int


@dataclass(frozen=True, slots=True)
class NamedArrival:
    """Each warp arrives at a named barrier, whose number of missing warps decreases by one. PTX ISA, "bar, barrier"
    (`.arrive`)."""

    barrier: Value


@dataclass(frozen=True, slots=True)
class NamedWait:
    """Each warp waits until all warps have arrived at the named barrier for the phase in which this warp arrived last.
    PTX ISA, "bar, barrier" (`.sync`)."""

    barrier: Value


Event: TypeAlias = (
    Wait
    | Arrive
    | CopyIn
    | MemoryAccess
    | Fence
    | Issue
    | MmaComplete
    | Sync
    | CopyOut
    | Commit
    | CopiesOutDone
    | NamedArrival
    | NamedWait
)


class Known(Protocol):
    """The queries about an op's operands that event rules use: numbers, bytes of buffers, warp groups."""

    def number(self, value: Value) -> int:
        """The integer value of an operand."""
        ...

    def bytes(self, buffer: Value) -> Bytes:
        """The bytes of memory of a buffer."""
        ...

    def warp_groups(self, op: Op) -> int:
        """The number of warp groups that run an op."""
        ...


def stage_and_phase(op: Op) -> list[Value]:
    """The operands that select the stage and the phase of an op."""
    if isinstance(op, MbarrierWait):
        return [op.stage, op.parity]
    return [op.stage] if isinstance(op, MbarrierArrive | MbarrierExpect | BulkLoad) else []


AnyOp = TypeVar("AnyOp", bound=Op)
Rule: TypeAlias = Callable[[AnyOp, Known], Iterator[Event]]
RULES: dict[type[Op], Callable[..., Iterator[Event]]] = {}


def event_rule(*kinds: type[AnyOp]) -> Callable[[Rule[AnyOp]], Rule[AnyOp]]:
    """Register a function as the rule for the events of op classes; a decorator."""

    def register(rule: Rule[AnyOp]) -> Rule[AnyOp]:
        for kind in kinds:
            RULES[kind] = rule
        return rule

    return register


def events(op: Op, known: Known) -> Iterator[Event]:
    """The events of an op, in order."""
    rule = RULES.get(type(op))
    return rule(op, known) if rule is not None else _accesses(op, known)


def completes_copies(op: Op) -> bool:
    """Whether the copies that an op starts are complete before the next op of its threads."""
    assert op.parent is not None
    committed, ops = False, op.parent.ops
    for o in ops[ops.index(op) + 1 :]:
        if isinstance(o, AsyncWait):
            return committed and not o.pending
        committed = committed or isinstance(o, AsyncCommit)
        if o.regions or (has_events(o) and not isinstance(o, AsyncCopy)):
            return False
    return False


def has_events(op: Op) -> bool:
    """Whether an op itself has events."""
    return type(op) in RULES or any(_shared(v) for _, v in _effects(op))


def accesses(op: Op) -> bool:
    """Whether the only events of an op are reads and writes of memory by threads."""
    return type(op) not in RULES or isinstance(op, BufNew)


def _effects(op: Op) -> Iterator[tuple[str, Value]]:
    assert isinstance(op, Op)
    for inner in op.walk() if isinstance(op, Lanes) else (op,):
        yield from ((e.kind, e.value) for e in inner.effects() if e.value is not None)


def _shared(value: Value) -> bool:
    return isinstance(value.type, BufType | StackType)


def _accesses(op: Op, known: Known) -> Iterator[Event]:
    for kind, value in _effects(op):
        if _shared(value) and kind != "arrive":
            number, element = _number(op)
            yield MemoryAccess(known.bytes(value), kind != "read", number=number, element=element)


def _number(op: Op) -> tuple[Value | None, int]:
    """What an op stores to all of a stage or to one element, or loads from a stage, and the element."""
    if isinstance(op, BufRead):
        return op.result, -1
    if isinstance(op, (BufGet, BufSet)):
        element, size = _element(op)
        number = op.result if isinstance(op, BufGet) else op.value if element >= 0 else None
        return number, element if size > 1 else -1
    if not isinstance(op, BufWrite) or op.to_tf32:
        return None, -1
    base = root(op.buffer)
    assert isinstance(op.buffer.type, BufType) and isinstance(base.type, BufType)
    stages = base.owner.stages or 1 if isinstance(base.owner, BufNew) else 1
    return op.tile if prod(op.buffer.type.shape) * stages == prod(base.type.shape) else None, -1


def _element(op: BufGet | BufSet) -> tuple[int, int]:
    """The element of a stage that an op accesses by constant indices, in row-major order, and the number of elements
    of a stage; -1 for other accesses."""
    view, base, element = op.buffer.owner, root(op.buffer), 0
    assert isinstance(base.type, BufType)
    shape = base.type.shape[1:]
    if not isinstance(view, BufView) or view.buffer is not base or tuple(view.shape) != shape:
        return -1, 0
    if tuple(view.dims) != (*range(1, 1 + len(shape)),) or len(op.indices) != len(shape):
        return -1, 0
    for i, n in zip(op.indices, shape, strict=True):
        index = int(i.owner.value) if isinstance(i.owner, ConstantLike) else -1
        if not 0 <= index < n:
            return -1, 0
        element = element * n + index
    return element, prod(shape)


def source_of_elements(op: Op) -> Value | None:
    """The operand to which each element of an op's result is equal, or of which it is an element; None if there is no
    such operand."""
    if isinstance(op, TileFull):
        return op.value
    return op.tile if isinstance(op, (TileExtract, ReshapeLike)) else None


# Barriers ------------------------------------------------------------------------------------------------------------


@event_rule(MbarrierWait)
def _wait(op: MbarrierWait, known: Known) -> Iterator[Event]:
    barrier, stage, parity = op.operands
    yield Wait(barrier, known.number(stage), known.number(parity), bool(op.elected))


@event_rule(MbarrierArrive)
def _arrive(op: MbarrierArrive, known: Known) -> Iterator[Event]:
    barrier, stage = op.operands
    yield Arrive(barrier, known.number(stage), bool(op.elected))


@event_rule(MbarrierExpect)
def _expect(op: MbarrierExpect, known: Known) -> Iterator[Event]:
    barrier, stage = op.operands
    yield Arrive(barrier, known.number(stage), True, op.bytes)


@event_rule(Barrier)
def _barrier(op: Barrier, known: Known) -> Iterator[Event]:
    """A barrier of the group. With `of_warps`, warps are not ordered with other warps, so that there is no event."""
    if not op.of_warps:
        yield Sync()


@event_rule(NamedSync)
def _sync(op: NamedSync, known: Known) -> Iterator[Event]:
    yield NamedArrival(op.barrier)
    yield NamedWait(op.barrier)


@event_rule(NamedArrive)
def _named_arrive(op: NamedArrive, known: Known) -> Iterator[Event]:
    yield NamedArrival(op.barrier)


@event_rule(FenceAsync)
def _fence(op: FenceAsync, known: Known) -> Iterator[Event]:
    yield Fence()


# Bulk copies ---------------------------------------------------------------------------------------------------------


@event_rule(BulkLoad)
def _load(op: BulkLoad, known: Known) -> Iterator[Event]:
    """A bulk load of a whole box, including its part outside of the array. A stage may be longer than the box, for the
    alignment of the next stage."""
    buffer, barrier, stage = op.buffer, op.barriers, op.stage
    assert isinstance(buffer.type, BufType)
    size = prod(buffer.type.shape) * element_bytes(buffer.type.dtype)
    yield CopyIn(known.bytes(buffer), barrier, known.number(stage), size)


@event_rule(BulkStore)
def _store(op: BulkStore, known: Known) -> Iterator[Event]:
    """A store in pieces through the slots of each warp group; the first warp group represents all. A slot is written
    after the last copy from it has read it. The events repeat after two iterations over the slots, so two iterations
    are sufficient."""
    staging, tile = op.buffer, op.tile.type
    t = staging.type
    assert isinstance(t, BufType) and isinstance(tile, TileType)
    groups = known.warp_groups(op)
    slots = t.shape[0] // groups
    staging_bytes = known.bytes(staging)
    size = (staging_bytes.end - staging_bytes.start) // t.shape[0]
    yield CopiesOutDone(0)
    yield Sync(warp_group=True)
    pieces = tile.size // (groups * t.shape[1] * t.shape[2])
    for k in range(min(pieces, 2 * slots + 1)):
        if k >= slots:
            yield CopiesOutDone(slots - 1)
            yield Sync(warp_group=True)
        start = staging_bytes.start + k % slots * size
        piece = Bytes(start, start + size, staging_bytes.buffer, k % slots)
        yield MemoryAccess(piece, True, warp_group=True)
        yield Fence()
        yield Sync(warp_group=True)
        yield CopyOut(piece, warp_group=True)


@event_rule(BulkPut)
def _put(op: BulkPut, known: Known) -> Iterator[Event]:
    yield CopyOut(known.bytes(op.buffer), commit=False)


@event_rule(BulkCommit)
def _commit(op: BulkCommit, known: Known) -> Iterator[Event]:
    yield Commit()


@event_rule(BulkWait)
def _store_wait(op: BulkWait, known: Known) -> Iterator[Event]:
    yield CopiesOutDone(op.pending)


# Matmuls ------------------------------------------------------------------------------------------------------------


@event_rule(SharedMma, RegisterMma)
def _matmul(op: RegisterMma | SharedMma, known: Known) -> Iterator[Event]:
    """A matmul by the tensor cores of warp groups if the attribute `unit` is "wgmma"; otherwise, the threads load the
    operands."""
    operands = tuple(known.bytes(v) for v in (op.a, op.b) if isinstance(v.type, BufType))
    if op.unit != "wgmma":
        yield from (MemoryAccess(at, False) for at in operands)
        return
    yield Issue(operands)
    if op.wait:
        yield MmaComplete(0)


@event_rule(MmaWait)
def _mma_wait(op: MmaWait, known: Known) -> Iterator[Event]:
    yield MmaComplete(op.pending)


# Buffers -------------------------------------------------------------------------------------------------------------


@event_rule(BufNew)
def _new(op: BufNew, known: Known) -> Iterator[Event]:
    if not isinstance(op.tile.owner, TileEmpty):
        yield MemoryAccess(known.bytes(op.result), True)


IN_FLIGHT = (SharedMma, RegisterMma)
"""Ops that may leave a matmul in flight: tensor cores still write the registers of their result. Only a matmul with the
same accumulator may access these registers before a wait that covers the matmul. Tensor cores also read the registers
with one operand of `RegisterMma`. PTX ISA, "wgmma.mma_async": "accessing the registers is undefined before
wgmma.wait_group"."""


def is_asynchronous(op: Op) -> bool:
    """Whether an op is asynchronous or synchronises asynchronous work: bulk copies, mbarriers, matmuls of warp
    groups."""
    matmuls = isinstance(op, IN_FLIGHT) and op.unit == "wgmma"
    return matmuls or (isinstance(op, ScheduleOp) and type(op) in RULES)


def leaves_in_flight(op: Op) -> bool:
    """Whether an op leaves a matmul in flight."""
    return isinstance(op, GroupMma) and op.unit == "wgmma" and not op.wait


def stays_in_flight(op: Op) -> bool:
    """Whether the accesses of an op are in flight until the threads that execute the op wait: matmuls that are not
    waited for, and bulk stores that one thread starts."""
    return isinstance(op, BulkPut) or leaves_in_flight(op)


def left_in_flight(wait: Op, started: Op, write: bool) -> int | None:
    """The number of the latest groups that `wait` leaves in flight, if it waits for an access of an op that stays in
    flight, a read or a `write`; None if it does not."""
    if isinstance(started, BulkPut):
        return wait.pending if isinstance(wait, BulkWait) and not (write and wait.read) else None
    if isinstance(wait, MmaWait):
        return wait.pending
    return 0 if isinstance(wait, GroupMma) and wait.unit == "wgmma" and wait.wait else None
