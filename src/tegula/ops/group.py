"""The ops to which cooperative ops are lowered for the threads of a group: barriers, exchanges through shared memory,
partial reductions, asynchronous copies, and matmuls that read shared memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tegula.ir import Effect, ElementwiseTiles, MatmulLike, Op, Synchronising, TileAccess, Value
from tegula.ir.fields import (
    ARRIVE,
    ISSUE,
    READ,
    WRITE,
    attr,
    bodies,
    operand,
    optional,
    output,
    variadic,
)
from tegula.ops.array import array_type
from tegula.ops.base import element, require
from tegula.ops.buffer import buffer_type
from tegula.ops.stack import stack_type
from tegula.ops.tile import check_shape, tile_type
from tegula.types import TileType, Type, int32

Attrs = Mapping[str, Any]


class Barrier(Op):
    """Synchronises all threads of the group: memory accesses before the barrier are visible to all threads after the
    barrier. Attributes: `reason`, a text with the ordered accesses; `of_warps`: each warp synchronises separately, and
    accesses are ordered within the warp."""

    __slots__ = ()
    NAME = "barrier"
    COOPERATIVE = SIDE_BY_SIDE = True
    PURE = False
    OBSERVED = True
    reason = attr("")
    of_warps = attr(False)

    def infer(self) -> Sequence[Type]:
        return []


class Publish(Op):
    """Writes one lane's value to a buffer; has no effect if the lane is absent or outside of the group. Operands:
    buffer of one element, per-lane value, lane (integer)."""

    __slots__ = ()
    NAME = "group.publish"
    COOPERATIVE = True
    PURE = False
    buffer = operand(WRITE)
    value = operand(lane=True)
    thread = operand()

    def infer(self) -> Sequence[Type]:
        buffer = buffer_type(self.buffer.type)
        require(
            buffer.shape == (1,) and buffer.dtype == self.value.type,
            f"a {self.value.type} cannot be published in a {buffer}",
        )
        require(
            getattr(self.thread.type, "is_int", False), f"the lane must be an integer, got {self.thread.type}"
        )
        return []


class Agree(Op):
    """Reports lanes whose value differs from lane 0's, for `lane.uniform` in debug mode. Operands: per-lane value, lane
    0's value. Attribute `implicit`: the name of an operand for which lane 0's value is used implicitly; the report is
    then a note."""

    __slots__ = ()
    NAME = "group.agree"
    COOPERATIVE = True
    PURE = False
    OBSERVED = True
    value = operand(lane=True)
    first = operand()
    implicit = attr("")

    def infer(self) -> Sequence[Type]:
        require(
            element(self.value.type) == self.first.type,
            f"{self.value.type} cannot agree with {self.first.type}",
        )
        return []


class PartialReduce(Op):
    """The part of reductions that each warp computes without shared memory, for one or more tiles.

    Operands: tiles. For each tile: a region; in the attribute `axes`, the `axis` as in `tile.reduce`; in `parts`, the
    number of warps that have a partial result. The reduced dimension of a result has an element for each of these
    warps; for a reduction of all elements the first dimension has, and the other lengths are 1. `tile.reduce` of a
    result equals `tile.reduce` of its operand."""

    __slots__ = ()
    NAME = "group.reduce"
    ISOLATED = True
    COOPERATIVE = True
    tiles = variadic()
    combines = bodies()
    axes = attr()
    parts = attr()

    def infer(self) -> Sequence[Type]:
        result_types: list[Type] = []
        for value, axis, parts in zip(self.tiles, self.axes, self.parts, strict=True):
            tile = tile_type(value.type, partial=True)
            partial = tile.partial and axis is not None and axis != len(tile.shape) - 1
            result_types.append(TileType(tile.dtype, parts_shape(tile.shape, axis, parts), partial))
        return result_types


def parts_shape(shape: tuple[int, ...], axis: int | None, parts: int) -> tuple[int, ...]:
    """The shape of a partial reduction."""
    if axis is None:
        return (parts, *(1,) * (len(shape) - 1))
    return (*shape[:axis], parts, *shape[axis + 1 :])


class SharedGather(Op):
    """`tile.gather` from a buffer. Operands: buffer, buffer of indices; attribute `axis`."""

    __slots__ = ()
    NAME = "group.gather"
    COOPERATIVE = SIDE_BY_SIDE = True
    PURE = False
    buffer = operand(READ)
    index = operand(READ)
    axis = attr()

    def infer(self) -> Sequence[Type]:
        source, index = buffer_type(self.buffer.type), buffer_type(self.index.type)
        axis = self.axis
        shape = (*source.shape[:axis], index.shape[0], *source.shape[axis + 1 :])
        return [TileType(source.dtype, check_shape(shape))]


class GatherEach(ElementwiseTiles):
    """The elements of a one-dimensional buffer at a tile of indices: `tile.gather` of a tile of one dimension. Each
    lane reads the elements for the indices that it holds. Operands: buffer, tile of indices."""

    __slots__ = ()
    NAME = "group.gather_each"
    COOPERATIVE = True
    PURE = False
    buffer = operand(READ)
    index = operand()

    def infer(self) -> Sequence[Type]:
        source, index = buffer_type(self.buffer.type), tile_type(self.index.type)
        require(
            len(source.shape) == 1,
            f"a gather by single indices needs a one-dimensional buffer, got shape {source.shape}",
        )
        return [TileType(source.dtype, index.shape)]


class GroupMma(MatmulLike, Synchronising):
    """Base of the matmuls that read shared memory. `declined`: the reason why the matmul does not use wgmma."""

    __slots__ = ()
    COOPERATIVE = True
    PURE = False
    declined = attr("")

    @property
    def computes_transposed(self) -> bool:
        """Whether the transposed matmul is computed."""
        return False

    @property
    def instructions(self) -> str:
        """The regular expression of the instructions that the matmul is lowered to."""
        if self.unit != "wgmma":
            return ""
        wait = r"|wgmma\.wait_group\.sync\.aligned 0;" if self.wait else ""
        return rf"wgmma\.(fence|commit_group)\.sync\.aligned;|wgmma\.mma_async\.{wait}"


class SharedMma(GroupMma):
    """`tile.matmul` with a and b in shared memory. Operands: a, b (buffers), c (tile), alpha, beta."""

    __slots__ = ()
    NAME = "group.mma"
    a = operand(READ)
    b = operand(READ)

    def infer(self) -> Sequence[Type]:
        a, b, c = buffer_type(self.a.type), buffer_type(self.b.type), tile_type(self.c.type)
        require(
            a.shape[1] == b.shape[0] and c.shape == (a.shape[0], b.shape[1]),
            f"shapes {a.shape}, {b.shape} and {c.shape} do not fit",
        )
        return [c]


class RegisterMma(GroupMma):
    """`tile.matmul` with one of its operands in shared memory. Operands: a and b, a tile and a buffer or vice
    versa, c (tile), alpha, beta."""

    __slots__ = ()
    NAME = "group.register_mma"

    def infer(self) -> Sequence[Type]:
        tiles = [isinstance(t, TileType) for t in (self.a.type, self.b.type)]
        require(tiles.count(True) == 1, "one operand of the matmul is in registers, the other in a buffer")
        a, b = (
            tile_type(v.type) if tile else buffer_type(v.type)
            for v, tile in zip((self.a, self.b), tiles, strict=True)
        )
        c = tile_type(self.c.type)
        require(
            a.shape[1] == b.shape[0] and c.shape == (a.shape[0], b.shape[1]),
            f"shapes {a.shape}, {b.shape} and {c.shape} do not fit",
        )
        return [c]

    @property
    def register_operand(self) -> int:
        """The index of the operand in registers, 0 or 1; for 1 the transposed matmul is computed."""
        return int(not isinstance(self.a.type, TileType))

    @property
    def computes_transposed(self) -> bool:
        return self.register_operand == 1

    @property
    def register_tile(self) -> Value:
        """The operand in registers."""
        return self.sides[self.register_operand]

    def effects(self) -> Sequence[Effect]:
        return (Effect(READ, self.a if self.register_operand else self.b),)


MATMULS = (SharedMma, RegisterMma)
"""The matmuls of a group of threads."""


class MmaWait(Synchronising):
    """Waits until at most `pending` (attribute) matmuls of the group are in flight. Operands: the accumulators that the
    wait completes; the results are the same tiles. Attribute `overlapped`: ops between the matmuls and the wait run
    while the matmuls are in flight, although this takes registers."""

    __slots__ = ()
    NAME = "group.mma_wait"
    INSTRUCTIONS = r"wgmma\.wait_group\.sync\.aligned {pending};"
    COOPERATIVE = True
    PURE = False
    OBSERVED = True
    sums = variadic()
    pending = attr()
    overlapped = attr(False)

    def infer(self) -> Sequence[Type]:
        require(self.pending >= 0, "the number of pending matmuls must be 0 or more")
        return [tile_type(v.type) for v in self.sums]


class AsyncCopy(TileAccess):
    """Starts copying the tile at an offset of an array to a buffer; elements outside the array become 0. Operands:
    buffer, array, one offset per dimension; attributes `bounds_check`; `aligned`; `ahead`: whether the buffer is a
    stage of a ring that no lane has read since the last wait; `lean`: whether addresses are recomputed in each
    iteration of a loop instead of kept in registers. The buffer may be read after `group.async_wait` and a barrier."""

    __slots__ = ()
    NAME = "group.async_copy"
    COOPERATIVE = True
    PURE = False
    buffer = operand(ISSUE)
    array = operand(READ)
    offset = variadic()
    ahead = attr(False)
    lean = attr(False)

    def infer(self) -> Sequence[Type]:
        buffer, array = buffer_type(self.buffer.type), array_type(self.array.type)
        require(buffer.dtype == array.dtype, f"the array holds {array.dtype}, the buffer {buffer.dtype}")
        require(len(self.offset) == len(buffer.shape) == array.ndim, "an offset has one entry per dimension")
        return []


class AsyncCommit(Op):
    """Commits the asynchronous copies started since the last commit as a group."""

    __slots__ = ()
    NAME = "group.async_commit"
    COOPERATIVE = True
    PURE = False
    OBSERVED = True

    def infer(self) -> Sequence[Type]:
        return []


class AsyncWait(Op):
    """Each thread waits until at most `pending` (attribute) of its groups of copies are unfinished. Operands: the
    buffers that the copies fill."""

    __slots__ = ()
    NAME = "group.async_wait"
    COOPERATIVE = True
    PURE = False
    buffers = variadic(ARRIVE)
    pending = attr()

    def infer(self) -> Sequence[Type]:
        for v in self.buffers:
            buffer_type(v.type)
        return []


class StackVote(Op):
    """Each warp writes the number of its pushing lanes. Operands: buffer with one int32 per warp, per-lane bool."""

    __slots__ = ()
    NAME = "group.stack_vote"
    COOPERATIVE = True
    PURE = False
    votes = operand(WRITE)
    has_value = operand(lane=True)

    def infer(self) -> Sequence[Type]:
        require(buffer_type(self.votes.type).dtype == int32, "votes are int32")
        return []


class StackFill(Op):
    """Pushing lanes write their values to slots of a stack, whose count is not changed. Operands: stack, votes,
    per-lane value, per-lane bool. The result is the slot, or -1."""

    __slots__ = ()
    NAME = "group.stack_fill"
    COOPERATIVE = True
    PURE = False
    VARYING = True
    stack = operand(READ, WRITE)
    votes = operand(READ)
    value = operand(lane=True)
    has_value = operand(lane=True)

    def infer(self) -> Sequence[Type]:
        require(
            stack_type(self.stack.type).dtype == self.value.type,
            f"the stack holds {stack_type(self.stack.type).dtype}, the value is {self.value.type}",
        )
        return [int32]


class StackTake(Op):
    """`stack.pop` without the update of the count."""

    __slots__ = ()
    NAME = "group.stack_take"
    COOPERATIVE = True
    PURE = False
    VARYING = True
    stack = operand(READ)
    value = output()
    slot = output()

    def infer(self) -> Sequence[Type]:
        return [element(stack_type(self.stack.type).dtype), int32]


class StackAdvance(Op):
    """Updates the count of a stack after a push (operands: stack, votes) or after a pop by every present lane (operand:
    stack)."""

    __slots__ = ()
    NAME = "group.stack_advance"
    COOPERATIVE = True
    PURE = False
    stack = operand(WRITE)
    votes = optional(READ)

    def infer(self) -> Sequence[Type]:
        stack_type(self.stack.type)
        return []
