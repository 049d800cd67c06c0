"""Barriers, asynchronous copies and fences in the language: schedules that are written by hand."""

from __future__ import annotations

from typing import Any

from tegula.ir import Value
from tegula.ops.base import TileOp, TypeRule, public, require_range
from tegula.ops.builder import OpBuilder, Operand, as_tuple, describe
from tegula.ops.schedule import (
    BulkCommit,
    BulkLoad,
    BulkPut,
    BulkWait,
    FenceAsync,
    MbarrierArrive,
    MbarrierExpect,
    MbarrierNew,
    MbarrierWait,
    NamedArrive,
    NamedNew,
    NamedSync,
)
from tegula.types import ArrayType, BufType, MbarrierType, NamedBarrierType, int32

MOST_STAGES, MOST_COUNTED, MOST_WARPS = 64, (1 << 20) - 1, 32


def _constant(x: Operand, what: str, most: int) -> int:
    if not isinstance(x, int) or isinstance(x, bool):
        raise TypeRule("", "", "NotConstant", culprit=x, what=what)
    require_range(1 <= x <= most, f"{what} is from 1 to {most}, got {x}", "give it such a number")
    return x


def _barriers(x: Operand) -> Value:
    if isinstance(x, Value) and isinstance(x.type, MbarrierType):
        return x
    raise TypeRule(f"expected memory barriers, got {describe(x)}", "make them with tg.mbarrier", culprit=x)


def _stage(b: OpBuilder, barriers: Value, stage: Operand) -> Value:
    assert isinstance(barriers.type, MbarrierType)
    if isinstance(stage, int) and not isinstance(stage, bool):
        n = barriers.type.stages
        what = f"these barriers have {n} stages, there is no stage {stage}"
        require_range(0 <= stage < n, what, f"give it 0 to {n - 1}")
    return b.cast(b.index(stage), int32)


def _emit(b: OpBuilder, op: type[TileOp], operands: list[Value], attrs: dict[str, Any] | None = None) -> None:
    b.emit(op, operands, {**(attrs or {}), **({"elected": True} if b.elected else {})})


@public("mbarrier")
def mbarrier(b: OpBuilder, count: Operand, stages: Operand = 1) -> Value:
    """Memory barriers, one for each of `stages` (1 to 64, a constant), made before the roles. Each is in phase 0 at
    first. A phase ends, and the next one begins, after `count` arrivals (a constant), when all bytes that were
    announced in it have come. `tg.mbarrier_arrive` is one arrival of each warp of the role."""
    attrs = {
        "arrivals": _constant(count, "the count of a barrier", MOST_COUNTED),
        "stages": _constant(stages, "the number of stages of a barrier", MOST_STAGES),
    }
    return b.one(MbarrierNew, [], attrs)


@public("mbarrier_arrive")
def mbarrier_arrive(b: OpBuilder, barrier: Operand, stage: Operand = 0) -> None:
    """One arrival of each warp of the role, when its threads have come here; in `if tg.elect():` one in all. What the
    threads have done before is seen by those who have waited for the phase."""
    at = _barriers(barrier)
    _emit(b, MbarrierArrive, [at, _stage(b, at, stage)])


@public("mbarrier_expect_bytes")
def mbarrier_expect_bytes(b: OpBuilder, barrier: Operand, stage: Operand, bytes: Operand) -> None:
    """One arrival, by one thread of the role, which announces `bytes` (a constant): the phase does not end before
    copies have brought as many."""
    at = _barriers(barrier)
    count = _constant(bytes, "the number of announced bytes", MOST_COUNTED)
    _emit(b, MbarrierExpect, [at, _stage(b, at, stage)], {"bytes": count})


@public("mbarrier_wait")
def mbarrier_wait(b: OpBuilder, barrier: Operand, stage: Operand, phase: Operand) -> None:
    """Wait until the phase whose number has the same lowest bit as `phase` has ended. A fresh barrier counts as one
    whose phase of parity 1 has ended. In `if tg.elect():` one warp waits."""
    at = _barriers(barrier)
    number = b.cast(b.index(phase), int32)
    parity = b.binary("and", number, 1) if not isinstance(phase, int) else b.const(phase & 1, int32)
    assert isinstance(parity, Value)
    _emit(b, MbarrierWait, [at, _stage(b, at, stage), parity])


def _shared(x: Operand) -> Value:
    if isinstance(x, Value) and isinstance(x.type, BufType):
        return x
    help = 'tg.tile_empty(..., storage="shared") before the roles makes one; a stage of it is ring[stage]'
    raise TypeRule(f"expected a shared tile bound to a name, got {describe(x)}", help, culprit=x)


def _place(b: OpBuilder, array: Operand, tile: Value, offset: Operand) -> tuple[Value, list[Value]]:
    if not (isinstance(array, Value) and isinstance(array.type, ArrayType)):
        raise TypeRule(f"expected an array, got {describe(array)}", culprit=array)
    assert isinstance(tile.type, BufType)
    entries = (0,) * len(tile.type.shape) if offset is None else as_tuple(offset)
    return array, [b.cast(b.index(i), int32) for i in entries]


@public("tile_load_async")
def tile_load_async(
    b: OpBuilder,
    array: Operand,
    tile: Operand,
    offset: Operand = None,
    barrier: Operand = None,
    stage: Operand = 0,
) -> None:
    """One thread of the role starts copying the tile at `offset` (elements; 0 by default) of an array to a shared tile,
    or to a part of one; elements outside the array become 0. The phase that stage `stage` of `barrier` is in then ends
    only when the bytes of the whole tile have come; they must be announced in it."""
    to, at = _shared(tile), _barriers(barrier)
    source, where = _place(b, array, to, offset)
    _emit(b, BulkLoad, [to, at, _stage(b, at, stage), source, *where])


@public("tile_store_async")
def tile_store_async(b: OpBuilder, array: Operand, tile: Operand, offset: Operand = None) -> None:
    """One thread of the role starts copying a shared tile, or a part of one, to an array at `offset` (elements; 0 by
    default). What lies outside the array is dropped. `tg.store_commit()` closes a group of such copies."""
    source = _shared(tile)
    target, where = _place(b, array, source, offset)
    _emit(b, BulkPut, [source, target, *where])


@public("store_commit")
def store_commit(b: OpBuilder) -> None:
    """The copies to arrays that this role has started since the last `tg.store_commit()` are a group."""
    _emit(b, BulkCommit, [])


@public("store_wait")
def store_wait(b: OpBuilder, pending: Operand = 0, read: Operand = False) -> None:
    """Wait until at most `pending` groups of copies to arrays that this role has closed are not done; with `read=True`,
    until at most so many have still to read their tiles."""
    if not isinstance(pending, int) or isinstance(pending, bool):
        raise TypeRule("", "", "NotConstant", culprit=pending, what="the number of groups left pending")
    what = f"no fewer than 0 groups are pending, got {pending}"
    require_range(pending >= 0, what, "0 waits for all of them")
    _emit(b, BulkWait, [], {"read": bool(read), "pending": pending})


@public("fence_async")
def fence_async(b: OpBuilder) -> None:
    """What each thread of the role has read and written in shared tiles comes before the copies and tensor core
    products that are started after this by whoever waits for it."""
    b.emit(FenceAsync, [])


@public("named_barrier")
def named_barrier(b: OpBuilder, warps: Operand) -> Value:
    """A barrier that roles meet at, made before them: those who wait at it go on each time `warps` warps (a constant)
    have come to it."""
    return b.one(NamedNew, [], {"warps": _constant(warps, "the warps of a named barrier", MOST_WARPS)})


def _named(x: Operand) -> Value:
    if isinstance(x, Value) and isinstance(x.type, NamedBarrierType):
        return x
    raise TypeRule(
        f"expected a named barrier, got {describe(x)}", "make one with tg.named_barrier", culprit=x
    )


@public("named_barrier_sync")
def named_barrier_sync(b: OpBuilder, barrier: Operand) -> None:
    """All warps of the role come to the barrier, and wait for the others that it counts."""
    b.emit(NamedSync, [_named(barrier)])


@public("named_barrier_arrive")
def named_barrier_arrive(b: OpBuilder, barrier: Operand) -> None:
    """All warps of the role come to the barrier, and go on at once."""
    b.emit(NamedArrive, [_named(barrier)])
