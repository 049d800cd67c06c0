"""Lanes: who am I, and the way between per-lane values and tiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tegula.fields import attr, body, operand, optional, output
from tegula.ir import Kernel, Value
from tegula.ops.base import TileOp, element, require
from tegula.ops.scalar import Cmp, Select
from tegula.types import MatType, TileType, Type, VecType, element_shape, int32, int64, scalar_of

if TYPE_CHECKING:
    from tegula.ops.gradient import GradientBuilder

Attrs = Mapping[str, Any]


class Tid(TileOp):
    """The thread index: attribute `count` leading components, int32. Which are uniform is the launch class's word.
    Operand, where given: the number of the block, int64, the same in all lanes."""

    __slots__ = ()
    NAME = "tid"
    VARYING = True
    block = optional()
    count = attr()

    def infer(self) -> Sequence[Type]:
        require(self.block is None or self.block.type == int64, "a block's number is an int64")
        return [int32] * self.count


class LogicalBlocks(TileOp):
    """The blocks of the launch that one block of the hardware runs, one after the other: the number of the first, their
    end, and the step from one to the next, int64."""

    __slots__ = ()
    NAME = "logical_blocks"
    first = output()
    end = output()
    step = output()

    def infer(self) -> Sequence[Type]:
        return [int64] * 3


class BlockPlace(TileOp):
    """Where a block stands in the launch: its index along dimension `dim` (attribute), which is not that of the lanes.
    Operand: the block's number, int64; result: int32. Attribute `raster`: blocks are numbered in groups of so many
    along the last dimension but one, which are walked along the last; 1 is row-major order."""

    __slots__ = ()
    NAME = "block.place"
    block = operand()
    dim = attr()
    raster = attr()

    def infer(self) -> Sequence[Type]:
        require(self.block.type == int64, "a block's number is an int64")
        require(self.raster > 0, "a raster has at least one row")
        return [int32]


class LaneUniform(TileOp):
    """Lane 0's value, in every lane. Cooperative. Debug mode reports lanes with another value, except where attribute
    `implicit` says that the user did not ask for it: an operand of a cooperative op means lane 0's."""

    __slots__ = ()
    NAME = "lane.uniform"
    COOPERATIVE = True
    value = operand()
    implicit = attr(False)

    def infer(self) -> Sequence[Type]:
        return [element(self.value.type)]

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        return grads


class TileFromLanes(TileOp):
    """One element per lane: a tile of shape (lanes,), or, unless `preserve_type`, (length, lanes) for vectors and
    (rows, cols, lanes) for matrices. Attributes: `lanes` (the group's size), `preserve_type`, `partial`."""

    __slots__ = ()
    NAME = "tile.from_lanes"
    COOPERATIVE = True
    value = operand(lane=True)
    lanes = attr()
    preserve_type = attr()
    partial = attr()

    def infer(self) -> Sequence[Type]:
        t = element(self.value.type)
        lanes = self.lanes
        if self.preserve_type:
            return [TileType(t, (lanes,), self.partial)]
        return [TileType(scalar_of(t), (*element_shape(t), lanes), self.partial)]

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        return (b.one(TileToLanes, [g], {"lanes": self.lanes}),)


class TileToLanes(TileOp):
    """Each lane's element of a tile whose last dimension is the group's size (`lanes`): the inverse of
    `tile.from_lanes`. Rank 1: the element; rank 2: a vector; rank 3: a matrix."""

    __slots__ = ()
    NAME = "tile.to_lanes"
    COOPERATIVE = True
    VARYING = True
    tile = operand()
    lanes = attr()

    def infer(self) -> Sequence[Type]:
        t = self.tile.type
        require(isinstance(t, TileType), f"expected a tile, got {t}")
        assert isinstance(t, TileType)
        require(
            t.shape[-1] == self.lanes,
            f"untile needs a tile whose last dimension is the block size {self.lanes}, got shape {t.shape}",
        )
        rank, scalar = len(t.shape), scalar_of(t.dtype)
        if rank == 1:
            return [t.dtype]
        require(t.dtype == scalar and rank <= 3, f"cannot untile {t}")
        return [VecType(t.shape[0], scalar) if rank == 2 else MatType(t.shape[0], t.shape[1], scalar)]

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        tile = self.tile.type
        assert isinstance(tile, TileType)
        attrs = {"lanes": self.lanes, "preserve_type": len(tile.shape) == 1, "partial": b.partial}
        return (b.fitted(b.one(TileFromLanes, [g], attrs), tile),)


class TileFromThread(TileOp):
    """Operands: per-lane value, lane (int). A tile of `shape` filled with that lane's value; a lane that is absent or
    outside gives 0."""

    __slots__ = ()
    NAME = "tile.from_thread"
    COOPERATIVE = True
    value = operand(lane=True)
    thread = operand(place=True)
    shape = attr()

    def infer(self) -> Sequence[Type]:
        require(
            getattr(self.thread.type, "is_int", False), f"the lane must be an integer, got {self.thread.type}"
        )
        return [TileType(element(self.value.type), tuple(self.shape))]

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        thread = b.one(LaneUniform, [b.primal(self.thread)], {"implicit": True})
        mine = b.one(
            Cmp, [b.as_scalar(b.one(LaneIndex, []), scalar_of(element(thread.type))), thread], {"pred": "eq"}
        )
        total = b.total(g)
        return b.one(Select, [mine, total, b.zero(total.type)]), None


class Lanes(TileOp):
    """Lane-varying code between two points where the lanes meet, made by `passes/split_lanes.py`. The region has no
    arguments and may use any outer value; varying ones mean the lane's own. Results: per-lane values."""

    __slots__ = ()
    NAME = "lanes"
    VARYING = True
    PURE = False
    body = body()

    def infer(self) -> Sequence[Type]:
        require(not self.body.args, "a lane region takes no arguments")
        return [v.type for v in self.body.terminator.operands]


class LaneIndex(TileOp):
    """The lane's number in its group, int32: of the block, or of the role inside one."""

    __slots__ = ()
    NAME = "lane.index"
    VARYING = True

    def infer(self) -> Sequence[Type]:
        return [int32]


class BlockIndex(TileOp):
    """The number of this block in the grid, int32, from 0."""

    __slots__ = ()
    NAME = "block.index"

    def infer(self) -> Sequence[Type]:
        return [int32]


class BlockCount(TileOp):
    """The number of blocks in the grid, int32."""

    __slots__ = ()
    NAME = "block.count"

    def infer(self) -> Sequence[Type]:
        return [int32]


def numbers_blocks(kernel: Kernel) -> bool:
    """Whether blocks are numbered by integers of 32 bits: launches have fewer of them then."""
    return any(isinstance(op, BlockPlace | BlockIndex | BlockCount) for op in kernel.walk())


MOST_NUMBERED = 2**31 - 1
