"""What pipes become on a GPU, and what kernels may do by hand: memory barriers that count arrivals and bytes, bulk
copies, fences between the ways that memory is reached by, barriers that threads of several roles meet at.

The threads of the group do these together; those with the attribute `elected` are done by one thread of it. Facts about
the instructions are from the PTX manual, "Asynchronous operations" and "mbarrier".

Blocks 2 k and 2 k + 1 of the hardware may be a pair (a cluster of two): they then reach each other's barriers and
shared memory, and one copy can fill a tile in both. What ops mean is said of a block by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tegula.ir import Effect, Op, Region, Value
from tegula.ops.array import array_type
from tegula.ops.base import TileOp, require
from tegula.ops.buffer import buffer_type
from tegula.ops.tile import tile_type
from tegula.types import MbarrierType, NamedBarrierType, Type, bool_, int32, int64

Attrs = Mapping[str, Any]


class ScheduleOp(TileOp):
    """Base of the ops of this file."""

    __slots__ = ()
    COOPERATIVE = True
    PURE = False
    NONDIFFERENTIABLE = "it is part of a schedule that is written by hand"

    def effects(self) -> Sequence[Effect]:
        return (Effect("io"),)


def _barrier(t: Type) -> MbarrierType:
    require(isinstance(t, MbarrierType), f"expected memory barriers, got {t}")
    assert isinstance(t, MbarrierType)
    return t


def _stage(operands: Sequence[Type]) -> None:
    for t in operands:
        require(t == int32, f"stages and phases are int32, got {t}")


class MbarrierNew(ScheduleOp):
    """One barrier in shared memory for each of `stages` (attribute); a phase of each ends after `arrivals` (attribute)
    of them, and when all bytes that were announced have come. If `pair` (attribute), each arrival is one in both blocks
    of a pair, whose barriers count the arrivals of both."""

    __slots__ = ()
    NAME = "mbarrier.new"

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        require(attrs["stages"] > 0 and attrs["arrivals"] > 0, "a barrier has stages and arrivals")
        return [MbarrierType(attrs["stages"])]


class MbarrierReady(ScheduleOp):
    """All threads of the block, and the units that copy, see the barriers made before."""

    __slots__ = ()
    NAME = "mbarrier.ready"

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        return []


class MbarrierWait(ScheduleOp):
    """Operands: barriers, stage, parity. Every thread waits until the phase of that parity has ended: 0 at first, 1
    passes at once on a fresh barrier. If `elected`, those of the first warp alone."""

    __slots__ = ()
    NAME = "mbarrier.wait"

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        _barrier(operands[0])
        _stage(operands[1:])
        require(len(operands) == 3, "a wait names barriers, stage and parity")
        return []


class MbarrierArrive(ScheduleOp):
    """Operands: barriers, stage. One arrival per warp of the group, after all its lanes have come here. If `elected`,
    one arrival, of the first warp."""

    __slots__ = ()
    NAME = "mbarrier.arrive"

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        _barrier(operands[0])
        _stage(operands[1:])
        require(len(operands) == 2, "an arrival names barriers and stage")
        return []


class MbarrierExpect(ScheduleOp):
    """Operands: barriers, stage. One thread of the group arrives and announces `bytes` (attribute)."""

    __slots__ = ()
    NAME = "mbarrier.expect"

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        _barrier(operands[0])
        _stage(operands[1:])
        require(attrs["bytes"] > 0, "at least one byte is announced")
        return []


class BulkLoad(ScheduleOp):
    """One thread of the group starts copying a tile of an array, by its tensor map; elements outside the array become
    0. Operands: buffer, barriers, stage, array, one offset (int32) per dimension. The buffer's bytes are counted by the
    barrier as they come. If `pair` (attribute), a last operand, bool, says whether the other block of the pair copies
    the same tile in this round: then each copies one half of it to both."""

    __slots__ = ()
    NAME = "bulk.load"

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        buffer, array = buffer_type(operands[0]), array_type(operands[3])
        _barrier(operands[1])
        offsets = operands[4:-1] if attrs.get("pair") else operands[4:]
        _stage([operands[2], *offsets])
        require(
            not attrs.get("pair") or operands[-1] == bool_, "a copy for a pair says whether it is for both"
        )
        require(
            buffer.dtype == array.dtype and len(offsets) == len(buffer.shape) == array.ndim,
            f"a tile of {array} does not fit {buffer}",
        )
        return []

    @property
    def offsets(self) -> list[Value]:
        """Where the tile lies in the array."""
        return self.operands[4:-1] if self.attrs.get("pair") else self.operands[4:]

    def effects(self) -> Sequence[Effect]:
        return (Effect("read", self.operands[3]), Effect("write", self.operands[0]))


class BulkStore(ScheduleOp):
    """A tile goes to an array through a staging buffer, in pieces: the threads of a warp group write a piece, one of
    them starts its copy, and the next but one waits until the copy has read it. What lies outside the array is
    dropped. Operands: staging buffer, array, tile, one offset (int32) per dimension; with attribute `adds` the copies
    add to the array, each element atomically. `turned`: the tile is spread as the result of a product that is done as
    the transposed one."""

    __slots__ = ()
    NAME = "bulk.store"

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        buffer, array, tile = buffer_type(operands[0]), array_type(operands[1]), tile_type(operands[2])
        _stage(operands[3:])
        require(buffer.dtype == array.dtype == tile.dtype, f"a {tile} does not go to {array}")
        require(
            len(operands) == 3 + array.ndim == 3 + len(tile.shape), "an offset has one entry per dimension"
        )
        return []

    def effects(self) -> Sequence[Effect]:
        return (Effect("atomic" if self.attrs.get("adds") else "write", self.operands[1]),)


class BulkPrefetch(ScheduleOp):
    """One thread of the group (`elected`) asks for a tile of an array to be in the cache soon. That changes nothing but
    time. Operands: array, one offset (int32) per dimension. Attributes: the `shape` of the tile, and of the `box` of
    the tensor map by which it is asked for."""

    __slots__ = ()
    NAME = "bulk.prefetch"

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        array, shape, box = array_type(operands[0]), attrs["shape"], attrs["box"]
        _stage(operands[1:])
        require(
            len(operands) - 1 == array.ndim == len(shape) == len(box), "an offset has one entry per dimension"
        )
        require(all(n % m == 0 for n, m in zip(shape, box, strict=True)), "a tile is whole boxes")
        return []


class LaunchNext(ScheduleOp):
    """What the block reads of arrays by copies has come: the next launch of the stream may start, as far as that
    matters (see `ir.Place`)."""

    __slots__ = ()
    NAME = "launch.next"

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        return []


class BulkPut(ScheduleOp):
    """One thread of the group starts copying a buffer to an array, by its tensor map; what lies outside the array is
    dropped. Operands: buffer, array, one offset (int32) per dimension. The copy belongs to the group of copies that
    `bulk.commit` closes next."""

    __slots__ = ()
    NAME = "bulk.put"

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        buffer, array = buffer_type(operands[0]), array_type(operands[1])
        _stage(operands[2:])
        require(
            buffer.dtype == array.dtype and len(operands) == 2 + len(buffer.shape) == 2 + array.ndim,
            f"a tile of {buffer.tile} does not go to {array}",
        )
        return []

    def effects(self) -> Sequence[Effect]:
        return (Effect("read", self.operands[0]), Effect("write", self.operands[1]))


class BulkCommit(ScheduleOp):
    """The thread that starts the group's copies to arrays closes a group: those that it has started since the last
    one."""

    __slots__ = ()
    NAME = "bulk.commit"

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        return []


class BulkWait(ScheduleOp):
    """The threads that started bulk stores wait until at most `pending` (attribute, 0 by default) groups of them are
    not done, or have not read their source (attribute `read`)."""

    __slots__ = ()
    NAME = "bulk.wait"

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        require(isinstance(attrs["read"], bool), "a wait is for reads or for all")
        require(attrs.get("pending", 0) >= 0, "a wait leaves no fewer than 0 groups")
        return []


class FenceAsync(ScheduleOp):
    """What this thread has written to shared memory is seen by the bulk copies and tensor core products that start
    after it."""

    __slots__ = ()
    NAME = "fence.async"

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        return []


# Barriers that threads of several roles meet at ---------------------------------------------------------------------


def _named(t: Type) -> None:
    require(isinstance(t, NamedBarrierType), f"expected a named barrier, got {t}")


class NamedNew(ScheduleOp):
    """A barrier that lets those who wait go on each time `warps` (attribute) warps have come to it."""

    __slots__ = ()
    NAME = "named.new"

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        require(attrs["warps"] > 0, "a barrier counts warps")
        return [NamedBarrierType(attrs["warps"])]


class NamedSync(ScheduleOp):
    """Every warp of the group comes to the barrier, and waits for the others that it counts."""

    __slots__ = ()
    NAME = "named.sync"

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        _named(operands[0])
        return []


class NamedArrive(ScheduleOp):
    """Every warp of the group comes to the barrier, and goes on at once."""

    __slots__ = ()
    NAME = "named.arrive"

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        _named(operands[0])
        return []


# Pairs of blocks ------------------------------------------------------------------------------------------------------


class _PairOp(TileOp):
    """Base of the ops that take and give one integer."""

    __slots__ = ()

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        require(
            len(operands) == 1 and operands[0] in (int32, int64), "a number of a tile is an int32 or int64"
        )
        return list(operands)


class PairEnd(_PairOp):
    """The end of a walk over numbered tiles, of which block b of G takes every G-th from the b-th on, so that the two
    blocks of a pair make equally many rounds: the operand, rounded up to an even number. A block by itself, which is
    what IR means, makes as many rounds as there are tiles for it."""

    __slots__ = ()
    NAME = "pair.end"


class PairOther(_PairOp):
    """The number of the tile that the other block of the pair works on in this round, given that of this block. Where a
    block is by itself, its own."""

    __slots__ = ()
    NAME = "pair.other"


BY_ONE_THREAD = (MbarrierWait, MbarrierArrive, MbarrierExpect, BulkLoad, BulkPut, BulkCommit, BulkWait)
"""Ops that one thread of a group can do by itself."""
MEETINGS = (MbarrierWait, MbarrierArrive, MbarrierExpect, BulkLoad, NamedSync, NamedArrive)
"""Ops that start copies, or after which tiles that roles share may be someone else's to write."""


def arrivals_at(barrier: Value) -> int:
    """How many arrivals end a phase of a barrier."""
    assert isinstance(barrier.owner, MbarrierNew | NamedNew)
    return barrier.owner.attrs["arrivals" if isinstance(barrier.owner, MbarrierNew) else "warps"]


# What the interpreter and a launch say of roles that wait at barriers -----------------------------------------------


def arriving(roles: Op, barrier: Value) -> list[int]:
    """The roles that arrive at a barrier, by their positions."""
    return [
        k
        for k, region in enumerate(roles.regions)
        if any(isinstance(op, ARRIVALS) and op.operands[0] is barrier for op in region.walk())
    ]


ARRIVALS = (MbarrierArrive, MbarrierExpect, NamedSync, NamedArrive)


def waiting_at(role: str, barrier: str, stage: int, phase: int, others: Sequence[tuple[str, bool]]) -> str:
    """Why a role cannot go on: it waits for the end of a phase. `others`: the roles that arrive there, and whether each
    has ended; `stage`: -1 for a named barrier."""
    called = f"barrier '{barrier}'" if barrier else "a barrier"
    of = f"stage {stage} of {called}" if stage >= 0 else called
    ended = [f"{name}, which {'has ended' if done else 'waits too'}" for name, done in others]
    by = " and ".join(ended) or "any role: none arrives there"
    return f"{role} waits here for phase {phase} of {of}, to be ended by {by}"
