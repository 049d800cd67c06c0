"""Pipes and groups in the language."""

from __future__ import annotations

from tegula.ir import Value
from tegula.ops.base import TypeRule, public, require_range
from tegula.ops.build_tile import constant_shape
from tegula.ops.builder import OpBuilder, Operand, as_tuple, describe
from tegula.ops.lane import LaneIndex
from tegula.ops.roles import PipeLoad, PipeNew, PipePop, PipePush, PipeRelease
from tegula.types import ArrayType, PipeType, element_type

MOST_STAGES = 64


def _pipe(x: Operand) -> Value:
    if isinstance(x, Value) and isinstance(x.type, PipeType):
        return x
    raise TypeRule(f"expected a tile pipe, got {describe(x)}", "make one with tg.tile_pipe", culprit=x)


@public("tile_pipe")
def tile_pipe(b: OpBuilder, shape: Operand, dtype: Operand = float, stages: Operand = 2) -> Value:
    """A pipe: a ring of `stages` (1 to 64, a constant) tiles of `shape` and scalar type `dtype`, which one role fills
    and others empty. Pipes are made before the roles."""
    if not isinstance(stages, int) or isinstance(stages, bool):
        raise TypeRule("", "", "NotConstant", culprit=stages, what="the number of stages of a pipe")
    what = f"a pipe has 1 to {MOST_STAGES} stages, got {stages}"
    require_range(1 <= stages <= MOST_STAGES, what, "2 to 4 hide the latency of memory")
    made = PipeType(element_type(dtype), constant_shape(shape), stages)
    return b.one(PipeNew, [], {"type": made})


@public("tile_pipe_load")
def tile_pipe_load(
    b: OpBuilder,
    pipe: Operand,
    array: Operand,
    offset: Operand = None,
    bounds_check: Operand = True,
    aligned: Operand = False,
) -> None:
    """Waits for a free stage of the pipe and starts to copy the tile at `offset` (elements; 0 by default) of an array
    to it. Elements outside the array are 0. `aligned=True` promises what it promises in tile_load."""
    target = _pipe(pipe)
    if not (isinstance(array, Value) and isinstance(array.type, ArrayType)):
        raise TypeRule(f"expected an array, got {describe(array)}", culprit=array)
    assert isinstance(target.type, PipeType)
    starts = (0,) * len(target.type.shape) if offset is None else as_tuple(offset)
    attrs = {"bounds_check": bool(bounds_check), "aligned": bool(aligned)}
    b.emit(PipeLoad, [target, array, *(b.index(i) for i in starts)], attrs)


@public("tile_pipe_push")
def tile_pipe_push(b: OpBuilder, pipe: Operand, tile: Operand) -> None:
    """Waits for a free stage of the pipe and writes a tile of its shape and type to it."""
    b.emit(PipePush, [_pipe(pipe), b.tile(tile)])


@public("tile_pipe_pop")
def tile_pipe_pop(b: OpBuilder, pipe: Operand) -> Value:
    """Waits until the pipe's next stage is full: its tile, which is read-only. The stage is free for the next tile
    after the last use of it."""
    return b.one(PipePop, [_pipe(pipe)])


@public("tile_pipe_release")
def tile_pipe_release(b: OpBuilder, pipe: Operand) -> None:
    """Frees the stage of the tile that this role popped first of those it still holds, before its last use frees it."""
    b.emit(PipeRelease, [_pipe(pipe)], {"early": True})


@public("group_size")
def group_size(b: OpBuilder) -> int:
    """The number of threads of the role, outside of roles of the block."""
    return b.lanes


@public("group_lane")
def group_lane(b: OpBuilder) -> Value:
    """This thread's number in its role, outside of roles in the block."""
    return b.one(LaneIndex, [])
