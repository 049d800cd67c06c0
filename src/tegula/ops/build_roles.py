"""Pipes and groups in the language."""

from __future__ import annotations

from tegula.ir import TypeRule, Value
from tegula.ops.base import public, require_range
from tegula.ops.build_tile import constant_shape
from tegula.ops.builder import OpBuilder, Operand, as_tuple, describe
from tegula.ops.kinds import PIPE_ENDPOINTS, PIPES, Aligned, BoundsCheck, Offset, Pipe
from tegula.ops.lane import LaneCount, LaneIndex, OnGpu
from tegula.ops.roles import PipeLoad, PipeNew, PipePop, PipePush, PipeRelease
from tegula.types import ArrayType, PipeType, element_type

MAX_STAGES = 64


def _pipe(x: Operand) -> Value:
    if isinstance(x, Value) and isinstance(x.type, PipeType):
        return x
    raise TypeRule(f"expected a tile pipe, got {describe(x)}", "create one with tg.tile_pipe", culprit=x)


@public("tile_pipe", PIPES)
def tile_pipe(b: OpBuilder, shape: Operand, dtype: Operand = float, stages: Operand = 2) -> Value:
    """A pipe: a ring buffer of tiles in shared memory, which one role fills and others empty. Pipes are created before
    the roles.

    One role fills a pipe, always by tg.tile_pipe_load or always by tg.tile_pipe_push; every role that pops the pipe
    gets every tile.

    Parameters:
        shape: 1 to 4 lengths of each tile, constants.
        dtype: the scalar type of the elements; float32 by default.
        stages: the number of tiles, a constant from 1 to 64; 2 by default.
    Returns:
        a pipe, empty at first.
    Raises:
        not-constant: a length or `stages` is known at run time only.
        out-of-range: `stages` is not from 1 to 64, or a length is below 1.
        type-mismatch: `dtype` is not a scalar type.
        role-placement: the pipe is created inside a role.
        shared-memory-exceeded: the stages do not fit the memory of a block.
    """
    if not isinstance(stages, int) or isinstance(stages, bool):
        raise TypeRule("", "", "NotConstant", culprit=stages, what="the number of stages of a pipe")
    message = f"a pipe has 1 to {MAX_STAGES} stages, got {stages}"
    require_range(1 <= stages <= MAX_STAGES, message, "2 to 4 hide the latency of memory")
    pipe_type = PipeType(element_type(dtype), constant_shape(shape), stages)
    return b.one(PipeNew, [], {"type": pipe_type})


@public("tile_pipe_load", PIPE_ENDPOINTS)
def tile_pipe_load(
    b: OpBuilder,
    pipe: Operand,
    array: Operand,
    offset: Offset = None,
    bounds_check: BoundsCheck = True,
    aligned: Aligned = False,
) -> None:
    """Waits for a free stage of a pipe and starts to copy a tile of an array to the stage; elements outside of the
    array are 0.

    The copy is asynchronous: the role continues, and the array may be read before other roles' writes to the array are
    visible.

    Parameters:
        pipe: a pipe with tiles of as many dimensions as `array`.
        array: an array of the dtype of `pipe`.
    Raises:
        type-mismatch: `pipe` is not a pipe, `array` is not an array, or their dtypes or dimensions differ.
    Source:
        on GPUs of compute capability 9.0 PTX ISA, cp.async.bulk.tensor.
    """
    target = _pipe(pipe)
    if not (isinstance(array, Value) and isinstance(array.type, ArrayType)):
        raise TypeRule(f"expected an array, got {describe(array)}", culprit=array)
    assert isinstance(target.type, PipeType)
    starts = (0,) * len(target.type.shape) if offset is None else as_tuple(offset)
    attrs = {"bounds_check": bool(bounds_check), "aligned": bool(aligned)}
    b.emit(PipeLoad, [target, array, *(b.offset(i) for i in starts)], attrs)


@public("tile_pipe_push", PIPE_ENDPOINTS)
def tile_pipe_push(b: OpBuilder, pipe: Pipe, tile: Operand) -> None:
    """Waits for a free stage of a pipe and writes a tile to the stage.

    Parameters:
        tile: a tile of the shape and dtype of `pipe`.
    Raises:
        type-mismatch: `pipe` is not a pipe, or `tile` has another shape or dtype.
    """
    b.emit(PipePush, [_pipe(pipe), b.tile(tile)])


@public("tile_pipe_pop", PIPE_ENDPOINTS)
def tile_pipe_pop(b: OpBuilder, pipe: Pipe) -> Value:
    """Waits until the next stage of a pipe is full and returns the stage's tile; the stage is free after the last use
    of the tile.

    Returns:
        a read-only tile of the shape and dtype of `pipe`: tg.copy returns a copy that can be changed.
    Raises:
        pipe-balance: the role may hold more tiles than the pipe has stages, or pops on only one of two paths.
        popped-tile-changed: the tile is changed.
    """
    return b.one(PipePop, [_pipe(pipe)])


@public("tile_pipe_release", PIPES)
def tile_pipe_release(b: OpBuilder, pipe: Pipe) -> None:
    """Frees the stage of the oldest tile that this role has popped and not released. Without this call, the stage is
    freed after the last use of the tile.

    Raises:
        pipe-balance: the role holds no tile, or uses a tile after its release.
    """
    b.emit(PipeRelease, [_pipe(pipe)], {"early": True})


@public("group_size")
def group_size(b: OpBuilder) -> int:
    """The number of threads of the role; outside of roles, of the block.

    Returns:
        an int, a constant when the kernel is compiled.
    Raises:
        nothing.
    Gradient:
        none: the result is a constant.
    """
    return b.lanes


@public("_on_gpu")
def on_gpu(b: OpBuilder) -> bool | Value:
    """Whether the kernel is compiled for a GPU: a constant, so that the other branch is removed."""
    return b.one(OnGpu, []) if b.on_gpu is None else b.on_gpu


@public("group_present")
def group_present(b: OpBuilder) -> int | Value:
    """The number of present threads of the group: those whose tg.group_lane() is below this number. Equal to
    tg.group_size(), except in the last block if the launch's threads do not fill the block.

    Returns:
        an int32; a constant if all blocks of the launch are full.
    Raises:
        nothing.
    Gradient:
        none: the result is an integer.
    """
    return b.one(LaneCount, []) if b.partial else b.lanes


@public("group_lane")
def group_lane(b: OpBuilder) -> Value:
    """The index of this thread in its role; outside of roles, in the block.

    Returns:
        an int32.
    Raises:
        nothing.
    Gradient:
        none: the result is an integer.
    """
    return b.one(LaneIndex, [])
