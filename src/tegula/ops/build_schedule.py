"""Barriers, asynchronous copies and fences in the language, for hand-written schedules."""

from __future__ import annotations

from typing import Any

from tegula.ir import Op, TypeRule, Value
from tegula.ops.base import public, require_range
from tegula.ops.builder import OpBuilder, Operand, as_tuple, describe
from tegula.ops.integer_ranges import INDEX_RANGE
from tegula.ops.kinds import (
    COPIES,
    HAND_WRITTEN,
    IN_ROLES,
    ORDERED,
    Barriers,
    FirstStage,
    NamedBarrier,
    Offset,
    SharedTile,
    Stage,
)
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

MAX_STAGES, MAX_BARRIER_COUNT, MAX_WARPS = 64, (1 << 20) - 1, 32


def _constant(x: Operand, name: str, maximum: int) -> int:
    if not isinstance(x, int) or isinstance(x, bool):
        raise TypeRule("", "", "NotConstant", culprit=x, what=name)
    require_range(
        1 <= x <= maximum, f"{name} must be from 1 to {maximum}, got {x}", "choose a number in this range"
    )
    return x


def _barriers(x: Operand) -> Value:
    if isinstance(x, Value) and isinstance(x.type, MbarrierType):
        return x
    raise TypeRule(f"expected memory barriers, got {describe(x)}", "create them with tg.mbarrier", culprit=x)


def _stage(b: OpBuilder, barriers: Value, stage: Operand) -> Value:
    assert isinstance(barriers.type, MbarrierType)
    if isinstance(stage, int) and not isinstance(stage, bool):
        n = barriers.type.stages
        message = f"stage {stage} is out of range: the barriers have {n} stages"
        require_range(0 <= stage < n, message, f"stages are 0 to {n - 1}")
    return b.cast(b.index(stage), int32)


def _emit_elected(
    b: OpBuilder, op: type[Op], operands: list[Value], attrs: dict[str, Any] | None = None
) -> None:
    b.emit(op, operands, {**(attrs or {}), **({"elected": True} if b.elected else {})})


@public("mbarrier", HAND_WRITTEN)
def mbarrier(b: OpBuilder, count: Operand, stages: Operand = 1) -> Value:
    """Memory barriers in shared memory, one for each stage, created before the roles.

    A phase ends, and the next one begins, after `count` arrivals and after all bytes that were announced in the phase
    have been copied.

    Parameters:
        count: the number of arrivals that end a phase, a constant from 1 to 2**20 - 1.
        stages: the number of barriers, a constant from 1 to 64; 1 by default.
    Returns:
        the barriers, each in phase 0.
    Raises:
        not-constant: a number is known at run time only.
        out-of-range: a number is not in its range.
        role-placement: the barriers are created inside a role.
    Source:
        PTX ISA, mbarrier.init.
    """
    attrs = {
        "arrivals": _constant(count, "the count of a barrier", MAX_BARRIER_COUNT),
        "stages": _constant(stages, "the number of stages of a barrier", MAX_STAGES),
    }
    return b.one(MbarrierNew, [], attrs)


@public("mbarrier_arrive", ORDERED)
def mbarrier_arrive(b: OpBuilder, barrier: Barriers, stage: FirstStage = 0) -> None:
    """Arrives at a memory barrier, once for each warp of the role; in `if tg.elect():` a single time.

    Earlier memory accesses of these threads are visible to threads that have waited for the end of the phase.

    Source:
        PTX ISA, mbarrier.arrive (release, CTA).
    """
    barriers = _barriers(barrier)
    _emit_elected(b, MbarrierArrive, [barriers, _stage(b, barriers, stage)])


@public("mbarrier_expect_bytes", ORDERED)
def mbarrier_expect_bytes(b: OpBuilder, barrier: Barriers, stage: Stage, bytes: Operand) -> None:
    """Arrives at a memory barrier once, by one thread of the role, and announces bytes: the phase does not end before
    copies have transferred the announced number of bytes.

    Parameters:
        bytes: the number of bytes, a constant from 1 to 2**20 - 1.
    Raises:
        not-constant: `bytes` is known at run time only.
        out-of-range: `bytes` is not in its range.
    Source:
        PTX ISA, mbarrier.arrive.expect_tx.
    """
    barriers = _barriers(barrier)
    count = _constant(bytes, "the number of announced bytes", MAX_BARRIER_COUNT)
    _emit_elected(b, MbarrierExpect, [barriers, _stage(b, barriers, stage)], {"bytes": count})


@public("mbarrier_wait", ORDERED)
def mbarrier_wait(b: OpBuilder, barrier: Barriers, stage: Stage, phase: Operand) -> None:
    """Waits until a phase of a memory barrier has ended; in `if tg.elect():` one warp waits.

    Parameters:
        phase: the number of the phase, an integer; only its lowest bit, the parity, is used. For a new barrier a
            phase of parity 1 has ended.
    Raises:
        deadlock: no role of a block can make progress, on a CPU.
    Source:
        PTX ISA, mbarrier.try_wait.parity.
    """
    barriers = _barriers(barrier)
    number = b.cast(b.index(phase), int32)
    parity = b.binary("and", number, 1) if not isinstance(phase, int) else b.const(phase & 1, int32)
    assert isinstance(parity, Value)
    _emit_elected(b, MbarrierWait, [barriers, _stage(b, barriers, stage), parity])


def _shared(x: Operand) -> Value:
    if isinstance(x, Value) and isinstance(x.type, BufType):
        return x
    help = 'create the tile before the roles: tg.tile_empty(..., storage="shared"); for stages, pass tiles[stage]'
    raise TypeRule(f"expected a shared tile bound to a name, got {describe(x)}", help, culprit=x)


def _array_and_indices(
    b: OpBuilder, array: Operand, tile: Value, offset: Operand
) -> tuple[Value, list[Value]]:
    if not (isinstance(array, Value) and isinstance(array.type, ArrayType)):
        raise TypeRule(f"expected an array, got {describe(array)}", culprit=array)
    assert isinstance(tile.type, BufType)
    entries = (0,) * len(tile.type.shape) if offset is None else as_tuple(offset)
    return array, [b.cast(b.within(b.index(i), INDEX_RANGE[1]), int32) for i in entries]


@public("tile_load_async", COPIES)
def tile_load_async(
    b: OpBuilder,
    array: Operand,
    tile: SharedTile,
    offset: Offset = None,
    barrier: Operand = None,
    stage: FirstStage = 0,
) -> None:
    """Starts to copy a tile of an array to a shared tile, by one thread of the role; elements outside of the
    array become 0.

    Parameters:
        array: an array of the dtype and the number of dimensions of `tile`, packed, aligned to 16 bytes and
            only read by the kernel.
        barrier: barriers of tg.mbarrier. The barrier counts the bytes of the whole tile, which must be announced in the
            phase.
    Raises:
        type-mismatch: `array` is not an array, the dtypes or dimensions differ, or `barrier` is missing.
    Source:
        PTX ISA, cp.async.bulk.tensor (global to shared).
    """
    target, barriers = _shared(tile), _barriers(barrier)
    source, indices = _array_and_indices(b, array, target, offset)
    _emit_elected(b, BulkLoad, [target, barriers, _stage(b, barriers, stage), source, *indices])


@public("tile_store_async", COPIES)
def tile_store_async(b: OpBuilder, array: Operand, tile: SharedTile, offset: Offset = None) -> None:
    """Starts to copy a shared tile to an array, by one thread of the role; elements outside of the array are
    dropped.

    Between writes of threads to `tile` and the copy, tg.fence_async is needed; tg.store_commit commits a group of such
    copies.

    Parameters:
        array: an array of the dtype and the number of dimensions of `tile`, packed, aligned to 16 bytes and
            only written by the kernel.
    Raises:
        type-mismatch: `array` is not an array, or the dtypes or dimensions differ.
    Source:
        PTX ISA, cp.async.bulk.tensor (shared to global).
    """
    source = _shared(tile)
    target, indices = _array_and_indices(b, array, source, offset)
    _emit_elected(b, BulkPut, [source, target, *indices])


@public("store_commit", IN_ROLES)
def store_commit(b: OpBuilder) -> None:
    """Commits as a group the copies to arrays that this role has started since its last commit.

    Source:
        PTX ISA, cp.async.bulk.commit_group.
    """
    _emit_elected(b, BulkCommit, [])


@public("store_wait", ORDERED)
def store_wait(b: OpBuilder, pending: Operand = 0, read: Operand = False) -> None:
    """Waits until at most `pending` of the groups of copies that this role has committed are incomplete.

    Parameters:
        pending: the number of groups, a constant from 0; 0 by default.
        read: True waits only until the groups have read their tiles, which may then change; False by default.
    Raises:
        not-constant: `pending` is known at run time only.
        out-of-range: `pending` is below 0.
    Source:
        PTX ISA, cp.async.bulk.wait_group.
    """
    if not isinstance(pending, int) or isinstance(pending, bool):
        raise TypeRule("", "", "NotConstant", culprit=pending, what="the number of pending groups")
    message = f"the number of pending groups must be 0 or more, got {pending}"
    require_range(pending >= 0, message, "0 waits for all groups")
    _emit_elected(b, BulkWait, [], {"read": bool(read), "pending": pending})


@public("fence_async", IN_ROLES)
def fence_async(b: OpBuilder) -> None:
    """Orders accesses of threads to shared tiles before copies and MMAs that start after the fence. Reads and writes of
    each thread of the role are ordered before the copies and MMAs of any thread that synchronises with that thread
    afterwards.

    Source:
        PTX ISA, fence.proxy.async.
    """
    b.emit(FenceAsync, [])


@public("named_barrier", HAND_WRITTEN)
def named_barrier(b: OpBuilder, warps: Operand) -> Value:
    """A barrier at which warps of several roles synchronise, created before the roles.

    Parameters:
        warps: the number of arriving warps that completes the barrier, a constant from 1 to 32.
    Returns:
        the barrier.
    Raises:
        not-constant: `warps` is known at run time only.
        out-of-range: `warps` is not from 1 to 32.
        role-placement: the call is inside a role.
    Source:
        PTX ISA, barrier.cta.
    """
    return b.one(NamedNew, [], {"warps": _constant(warps, "the warps of a named barrier", MAX_WARPS)})


def _named(x: Operand) -> Value:
    if isinstance(x, Value) and isinstance(x.type, NamedBarrierType):
        return x
    raise TypeRule(
        f"expected a named barrier, got {describe(x)}", "create one with tg.named_barrier", culprit=x
    )


@public("named_barrier_sync", ORDERED)
def named_barrier_sync(b: OpBuilder, barrier: NamedBarrier) -> None:
    """All warps of the role arrive at a named barrier and wait until the barrier's number of warps has arrived.

    Raises:
        deadlock: no role of a block can make progress, on a CPU.
    Source:
        PTX ISA, barrier.cta.sync.
    """
    b.emit(NamedSync, [_named(barrier)])


@public("named_barrier_arrive", ORDERED)
def named_barrier_arrive(b: OpBuilder, barrier: NamedBarrier) -> None:
    """All warps of the role arrive at a named barrier without waiting.

    Source:
        PTX ISA, barrier.cta.arrive.
    """
    b.emit(NamedArrive, [_named(barrier)])
