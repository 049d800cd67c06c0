"""Ops of GPU schedules, which pipes are lowered to and which kernels may use directly: memory barriers that count
arrivals and bytes, bulk copies, fences between memory proxies, and named barriers.

All threads of the group reach these ops; one thread runs an op with the attribute `elected`. The instructions are
described in the PTX manual, "Asynchronous operations" and "mbarrier".

CTAs 2 k and 2 k + 1 may form a 2-CTA cluster: they can access each other's barriers and shared memory, and one copy can
fill a tile in both. The docstrings describe the effect in one CTA."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tegula.ir import Effect, Op, Region, Synchronising, TileAccess, Value
from tegula.ir.fields import READ, WRITE, attr, operand, variadic
from tegula.ops.array import array_type
from tegula.ops.base import require, types
from tegula.ops.buffer import buffer_type
from tegula.ops.tile import tile_type
from tegula.types import MbarrierType, NamedBarrierType, TileType, Type, bool_, int32, int64

Attrs = Mapping[str, Any]


_COMMIT, _FENCE = r"cp\.async\.bulk\.commit_group;", r"fence\.proxy\.async\.shared::cta;"
_COPY_OUT = r"cp\.(reduce\.)?async\.bulk\.tensor\.\dd\.global\.shared::cta"


class ScheduleOp(Synchronising):
    """Base of the ops of this file. `elected`: one thread of the group runs the op, for all."""

    __slots__ = ()
    COOPERATIVE = True
    PURE = False
    OBSERVED = True
    NONDIFFERENTIABLE = "the operation is part of a hand-written schedule"
    elected = attr(False)


def _barrier(t: Type) -> MbarrierType:
    require(isinstance(t, MbarrierType), f"expected memory barriers, got {t}")
    assert isinstance(t, MbarrierType)
    return t


def _require_int32(operands: Sequence[Type]) -> None:
    for t in operands:
        require(t == int32, f"stages and phases are int32, got {t}")


class StageOp(ScheduleOp):
    """Base of the ops at one stage of barriers. `WAITS`: whether the op waits for the barrier."""

    __slots__ = ()
    WAITS: ClassVar[bool] = False

    if TYPE_CHECKING:
        barriers = operand()
        stage = operand()


class MbarrierNew(ScheduleOp):
    """Creates one barrier in shared memory for each of `stages` (attribute). A phase of a barrier ends after `arrivals`
    (attribute) arrivals and all announced bytes. With `cluster` (attribute), each arrival is counted by the barriers of
    both CTAs of a cluster."""

    __slots__ = ()
    NAME = "mbarrier.new"
    stages = attr()
    arrivals = attr()
    cluster = attr(False)

    def infer(self) -> Sequence[Type]:
        require(self.stages > 0 and self.arrivals > 0, "a barrier has at least one stage and one arrival")
        return [MbarrierType(self.stages)]

    def per_stage_barriers(self) -> list[MbarrierNew]:
        """For each stage, an op that creates a single barrier."""
        attrs = {"arrivals": self.arrivals, "cluster": self.cluster, "stages": 1}
        barriers = [MbarrierNew([], [MbarrierType(1)], attrs, [], self.loc) for _ in range(self.stages)]
        for stage, barrier in enumerate(barriers):
            barrier.result.name = f"{self.result.name or 'barrier'}_{stage}"
        return barriers


class MbarrierReady(ScheduleOp):
    """Makes barriers that were created earlier visible to all threads of the block and to the copy engines."""

    __slots__ = ()
    NAME = "mbarrier.ready"

    def infer(self) -> Sequence[Type]:
        return []


class MbarrierWait(StageOp):
    """Operands: barriers, stage, parity. Every thread, or, if `elected`, every thread of the first warp, waits until
    the phase of the given parity has ended. The first phase has parity 0; on a new barrier a wait for parity 1 returns
    immediately."""

    __slots__ = ()
    NAME = "mbarrier.wait"
    WAITS = True
    INSTRUCTIONS = r"mbarrier\.try_wait\.parity\.shared::cta\.b64 "
    barriers = operand()
    stage = operand()
    parity = operand()

    def infer(self) -> Sequence[Type]:
        _barrier(self.barriers.type)
        _require_int32([self.stage.type, self.parity.type])
        return []

    @property
    def is_single_thread(self) -> bool:
        return bool(self.elected)


class MbarrierArrive(StageOp):
    """Operands: barriers, stage. One arrival per warp of the group, after all lanes of the warp have reached the op. If
    `elected`, one arrival, by the first warp."""

    __slots__ = ()
    NAME = "mbarrier.arrive"
    INSTRUCTIONS = r"mbarrier\.arrive\.shared::(cta|cluster)\.b64 _, |mapa\.shared::cluster\.u32 "
    SINGLE_THREAD = True
    barriers = operand()
    stage = operand()

    def infer(self) -> Sequence[Type]:
        _barrier(self.barriers.type)
        _require_int32([self.stage.type])
        return []


class MbarrierExpect(StageOp):
    """Operands: barriers, stage. One thread of the group arrives and announces `bytes` (attribute)."""

    __slots__ = ()
    NAME = "mbarrier.expect"
    INSTRUCTIONS = r"mbarrier\.arrive\.expect_tx\.shared::cta\.b64 _, \[%\w+\], {bytes};"
    SINGLE_THREAD = True
    barriers = operand()
    stage = operand()
    bytes = attr()

    def infer(self) -> Sequence[Type]:
        _barrier(self.barriers.type)
        _require_int32([self.stage.type])
        require(self.bytes > 0, "at least one byte is announced")
        return []


class BulkLoad(StageOp, TileAccess):
    """One thread of the group starts copying a tile of an array, by its tensor map; elements outside the array become
    0. Operands: buffer, barriers, stage, array, one offset (int32) per dimension. The barrier counts the bytes as they
    are written to the buffer. `shape` (attribute): the shape of the tile, if the buffer holds the tile's rows as a
    matrix. With `cluster` (attribute), the last operand is a bool: whether the other CTA of the cluster copies the same
    tile in this iteration. Then each CTA copies one half of the tile to both CTAs."""

    __slots__ = ()
    NAME = "bulk.load"
    INSTRUCTIONS = r"cp\.async\.bulk\.tensor\.\dd\.shared::cluster\.global\.mbarrier::complete_tx::bytes"
    SINGLE_THREAD = True
    OBSERVED = False
    buffer = operand(WRITE)
    barriers = operand()
    stage = operand()
    array = operand(READ)
    rest = variadic()
    cluster = attr(False)
    to_tf32 = attr(False)
    shape = attr(None)

    @property
    def tile(self) -> TileType:
        """The type of the tile that is copied."""
        buffer = buffer_type(self.buffer.type)
        return TileType(buffer.dtype, buffer.shape if self.shape is None else self.shape)

    def infer(self) -> Sequence[Type]:
        buffer, array, tile = buffer_type(self.buffer.type), array_type(self.array.type), self.tile
        _barrier(self.barriers.type)
        offset = types(self.offset)
        _require_int32([self.stage.type, *offset])
        require(
            self.both is None or self.both.type == bool_,
            "the last operand of a cluster's bulk.load must be a bool: whether the tile is multicast to both CTAs",
        )
        require(
            buffer.dtype == array.dtype and len(offset) == len(tile.shape) == array.ndim,
            f"a tile of {array} does not fit {buffer}",
        )
        require(buffer.tile.rows == tile.rows, f"{buffer} does not have the rows of a tile of {tile.shape}")
        return []

    @property
    def offset(self) -> list[Value]:
        """The offset of the tile in the array, in elements."""
        return self.rest[:-1] if self.cluster else self.rest

    @property
    def both(self) -> Value | None:
        """Whether the other CTA of the cluster copies the same tile; None without a cluster."""
        return self.rest[-1] if self.cluster else None

    @both.setter
    def both(self, value: Value) -> None:
        self.rest = [*self.offset, value]
        self.cluster = True


class BulkStore(ScheduleOp, TileAccess):
    """Stores a tile to an array through a staging buffer, in pieces: the threads of a warp group write a piece to a
    slot of the buffer, and one of the threads starts the copy. Before a slot is written again, the thread waits until
    the copy has read the slot. Elements outside the array are dropped. Operands: staging buffer, array, tile, one
    offset (int32) per dimension; with attribute `adds` the copies add to the array, each element atomically.
    `transposed`: the tile is distributed over threads as the result of a transposed matmul."""

    __slots__ = ()
    NAME = "bulk.store"
    INSTRUCTIONS = (
        rf"{_COMMIT}|cp\.async\.bulk\.wait_group(\.read {{pending}}| 0);|{_FENCE}|stmatrix\.|{_COPY_OUT}"
    )
    OBSERVED = False
    buffer = operand()
    array = operand()
    tile = operand()
    offset = variadic()
    adds = attr(False)
    transposed = attr(False)

    @property
    def pending(self) -> str:
        """A regular expression for the number of earlier copies that may still read their pieces: less than the number
        of slots of the buffer."""
        return f"({'|'.join(map(str, range(buffer_type(self.buffer.type).shape[0])))})"

    def infer(self) -> Sequence[Type]:
        buffer, array, tile = (
            buffer_type(self.buffer.type),
            array_type(self.array.type),
            tile_type(self.tile.type),
        )
        _require_int32([v.type for v in self.offset])
        require(
            buffer.dtype == array.dtype == tile.dtype,
            f"a {tile} cannot be stored to {array} through {buffer}: the dtypes differ",
        )
        require(
            len(self.offset) == array.ndim == len(tile.shape),
            "the offset must have one entry per dimension of the array",
        )
        return []

    def effects(self) -> Sequence[Effect]:
        return (Effect("atomic" if self.adds else "write", self.array),)


class BulkPrefetch(ScheduleOp):
    """One thread of the group (`elected`) prefetches a tile of an array to the L2 cache. Operands: array, one offset
    (int32) per dimension. Attributes: the `shape` of the tile, and the shape `box` of the box of the tensor map."""

    __slots__ = ()
    NAME = "bulk.prefetch"
    array = operand()
    offset = variadic()
    shape = attr()
    box = attr()

    def infer(self) -> Sequence[Type]:
        array, shape, box = array_type(self.array.type), self.shape, self.box
        _require_int32([v.type for v in self.offset])
        require(
            len(self.offset) == array.ndim == len(shape) == len(box),
            "the offset must have one entry per dimension of the array",
        )
        require(
            all(n % m == 0 for n, m in zip(shape, box, strict=True)),
            "each dimension of the tile must be a multiple of the box",
        )
        return []


class LaunchNext(ScheduleOp):
    """Marks the point after a block's last copy from an array; the next launch in the stream may start when all blocks
    have reached this point (see `ir.LaunchOverlap`)."""

    __slots__ = ()
    NAME = "launch.next"

    def infer(self) -> Sequence[Type]:
        return []


class BulkPut(ScheduleOp):
    """One thread of the group starts copying a buffer to an array, by its tensor map; elements outside the array are
    dropped. Operands: buffer, array, one offset (int32) per dimension. The copy belongs to the group of copies that the
    next `bulk.commit` commits."""

    __slots__ = ()
    NAME = "bulk.put"
    INSTRUCTIONS = _COPY_OUT
    SINGLE_THREAD = True
    OBSERVED = False
    buffer = operand(READ)
    array = operand(WRITE)
    offset = variadic()

    def infer(self) -> Sequence[Type]:
        buffer, array = buffer_type(self.buffer.type), array_type(self.array.type)
        _require_int32([v.type for v in self.offset])
        require(
            buffer.dtype == array.dtype and len(self.offset) == len(buffer.shape) == array.ndim,
            f"a {buffer.tile} cannot be copied to {array}",
        )
        return []


class BulkCommit(ScheduleOp):
    """Commits a bulk group of the stores that the group's copying thread has started since the last commit."""

    __slots__ = ()
    NAME = "bulk.commit"
    INSTRUCTIONS = _COMMIT
    SINGLE_THREAD = True

    def infer(self) -> Sequence[Type]:
        return []


class BulkWait(ScheduleOp):
    """The threads that started bulk stores wait until at most `pending` (attribute, 0 by default) groups of stores are
    incomplete or, with attribute `read`, have not read their source."""

    __slots__ = ()
    NAME = "bulk.wait"
    INSTRUCTIONS = r"cp\.async\.bulk\.wait_group(\.read)? {pending};"
    read = attr()
    pending = attr(0)

    def infer(self) -> Sequence[Type]:
        require(isinstance(self.read, bool), "`read` must be True or False")
        require(self.pending >= 0, "the number of pending groups must be 0 or more")
        return []


class FenceAsync(ScheduleOp):
    """Makes this thread's earlier writes to shared memory visible to bulk copies and MMAs that start after the
    fence."""

    __slots__ = ()
    NAME = "fence.async"
    INSTRUCTIONS = _FENCE

    def infer(self) -> Sequence[Type]:
        return []


# Barriers at which threads of several roles synchronise ---------------------------------------------------------------


def _named(t: Type) -> None:
    require(isinstance(t, NamedBarrierType), f"expected a named barrier, got {t}")


class NamedNew(ScheduleOp):
    """A barrier that releases the waiting warps each time `warps` (attribute) warps have arrived."""

    __slots__ = ()
    NAME = "named.new"
    warps = attr()

    def infer(self) -> Sequence[Type]:
        require(self.warps > 0, f"a barrier counts at least one warp, got {self.warps}")
        return [NamedBarrierType(self.warps)]


class NamedSync(ScheduleOp):
    """Every warp of the group arrives at the barrier and waits until the barrier's number of warps has arrived."""

    __slots__ = ()
    NAME = "named.sync"
    INSTRUCTIONS = r"bar(rier)?(\.cta)?\.sync(\.aligned)? "
    barrier = operand()

    def infer(self) -> Sequence[Type]:
        _named(self.barrier.type)
        return []


class NamedArrive(ScheduleOp):
    """Every warp of the group arrives at the barrier without waiting."""

    __slots__ = ()
    NAME = "named.arrive"
    INSTRUCTIONS = r"bar(rier)?(\.cta)?\.arrive(\.aligned)? "
    barrier = operand()

    def infer(self) -> Sequence[Type]:
        _named(self.barrier.type)
        return []


# 2-CTA clusters -------------------------------------------------------------------------------------------------------


class _ClusterOp(Op):
    """Base of the ops with one integer operand and one integer result."""

    __slots__ = ()
    number = operand()

    def infer(self) -> Sequence[Type]:
        require(self.number.type in (int32, int64), "the index of a tile must be an int32 or int64")
        return [self.number.type]


class ClusterEnd(_ClusterOp):
    """The end of a loop over numbered tiles in which block b of G blocks processes the tiles b, b + G, b + 2 G and so
    on: the operand rounded up to an even number, so that both CTAs of a cluster run the same number of iterations. In
    the semantics of the IR, which describes a single CTA, a CTA runs one iteration for each of its tiles."""

    __slots__ = ()
    NAME = "cluster.end"


class ClusterPeer(_ClusterOp):
    """The number of the tile that the other CTA of the cluster works on in this iteration, given the number of this
    CTA's tile; without a cluster, the operand itself."""

    __slots__ = ()
    NAME = "cluster.peer"


ELECTABLE = (MbarrierWait, MbarrierArrive, MbarrierExpect, BulkLoad, BulkPut, BulkCommit, BulkWait)
"""The ops that a single thread of a group can execute."""
HANDOVERS = (MbarrierWait, MbarrierArrive, MbarrierExpect, BulkLoad, NamedSync, NamedArrive)
"""The ops that start copies, or after which another role may write tiles that roles share."""


def is_elected(op: Op) -> bool:
    """Whether one thread of the group runs an op of a schedule, for the whole group."""
    return isinstance(op, ScheduleOp) and bool(op.elected)


def stages_of(barrier: MbarrierNew | NamedNew) -> int:
    """The number of barriers that an op creates: one for each stage."""
    return barrier.stages if isinstance(barrier, MbarrierNew) else 1


def arrivals_at(barrier: Value) -> int:
    """The number of arrivals that end a phase of a barrier."""
    assert isinstance(barrier.owner, MbarrierNew | NamedNew)
    return barrier.owner.arrivals if isinstance(barrier.owner, MbarrierNew) else barrier.owner.warps


# Messages about roles that wait at barriers ---------------------------------------------------------------------------


def arriving(roles: Op, barrier: Value) -> list[int]:
    """The indices of the roles that arrive at a barrier."""
    return [k for k, region in enumerate(roles.regions) if barrier in arrived_at(region)]


def arrived_at(region: Region) -> set[Value]:
    """The barriers at which ops of a region arrive."""
    arrivals = [op for op in region.walk() if isinstance(op, MbarrierArrive | MbarrierExpect)]
    named = [op for op in region.walk() if isinstance(op, NamedSync | NamedArrive)]
    return {op.barriers for op in arrivals} | {op.barrier for op in named}


def describe_wait_at(
    role: str, barrier: str, stage: int, phase: int, others: Sequence[tuple[str, bool]]
) -> str:
    """A text with the phase that a blocked role waits for. `others`: the roles that arrive at the barrier, and whether
    each has ended; `stage`: -1 for a named barrier."""
    barrier_text = f"barrier '{barrier}'" if barrier else "a barrier"
    phase_owner = f"stage {stage} of {barrier_text}" if stage >= 0 else barrier_text
    role_texts = [f"{name}, which {'has ended' if done else 'waits too'}" for name, done in others]
    awaited = " and ".join(role_texts) or "any role, but no role arrives at the barrier"
    return f"{role} waits here for phase {phase} of {phase_owner}, to be ended by {awaited}"
