"""Lanes: who am I, and the way between per-lane values and tiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from tegula.ir import Kernel, Op, Value
from tegula.ir.fields import attr, body, operand, optional, output
from tegula.ops.base import element, require
from tegula.ops.scalar import Cmp, Select
from tegula.types import (
    DType,
    ElementType,
    MatType,
    TileType,
    Type,
    VecType,
    element_shape,
    int32,
    int64,
    scalar_of,
)

if TYPE_CHECKING:
    from tegula.ops.gradient import GradientBuilder

Attrs = Mapping[str, Any]
WARP = 32


class Tid(Op):
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


class LogicalBlocks(Op):
    """The blocks of the launch that one CTA runs, one after the other: the number of the first, their
    end, and the step from one to the next, int64."""

    __slots__ = ()
    NAME = "logical_blocks"
    first = output()
    end = output()
    step = output()

    def infer(self) -> Sequence[Type]:
        return [int64] * 3


class BlockPlace(Op):
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


class LaneUniform(Op):
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


class TileFromLanes(Op):
    """One element per lane: a tile of shape (lanes,), or, unless `preserve_type`, (length, lanes) for vectors and
    (rows, cols, lanes) for matrices. Attributes: `lanes` (the group's size), `preserve_type`, `partial`.

    With `grid`: the tile of `shape` of which lane (i, j, ..) of the grid has the elements [i::grid[0], j::grid[1], ..];
    components beyond the tile are left out, and what absent lanes have is 0."""

    __slots__ = ()
    NAME = "tile.from_lanes"
    COOPERATIVE = True
    value = operand(lane=True)
    lanes = attr()
    preserve_type = attr()
    partial = attr()
    grid = attr(None)
    shape = attr(None)

    def infer(self) -> Sequence[Type]:
        t = element(self.value.type)
        lanes = self.lanes
        if self.grid is not None:
            wanted = local_type(scalar_of(t), self.shape, self.grid, lanes)
            what = (
                f"a tile of shape {self.shape} on the grid {self.grid} takes {wanted} of each thread, got {t}"
            )
            require(t == wanted, what)
            return [TileType(scalar_of(t), tuple(self.shape))]
        if self.preserve_type:
            return [TileType(t, (lanes,), self.partial)]
        return [TileType(scalar_of(t), (*element_shape(t), lanes), self.partial)]

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        return (b.one(TileToLanes, [g], {"lanes": self.lanes, "grid": self.grid}),)


class TileToLanes(Op):
    """Each lane's element of a tile whose last dimension is the group's size (`lanes`): the inverse of
    `tile.from_lanes`. Rank 1: the element; rank 2: a vector; rank 3: a matrix. With `grid` also; components beyond the
    tile are 0."""

    __slots__ = ()
    NAME = "tile.to_lanes"
    COOPERATIVE = True
    VARYING = True
    tile = operand()
    lanes = attr()
    grid = attr(None)

    def infer(self) -> Sequence[Type]:
        t = self.tile.type
        require(isinstance(t, TileType), f"expected a tile, got {t}")
        assert isinstance(t, TileType)
        if self.grid is not None:
            require(t.dtype == scalar_of(t.dtype), f"a tile of {t.dtype} has no grid")
            return [local_type(scalar_of(t.dtype), t.shape, self.grid, self.lanes)]
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
        if self.grid is not None:
            attrs = {"grid": self.grid, "shape": tile.shape, "preserve_type": False, "partial": False}
            return (b.one(TileFromLanes, [g], {"lanes": self.lanes, **attrs}),)
        attrs = {"lanes": self.lanes, "preserve_type": len(tile.shape) == 1, "partial": b.partial}
        return (b.fitted(b.one(TileFromLanes, [g], attrs), tile),)


def slots(shape: Sequence[int], grid: Sequence[int]) -> tuple[int, ...]:
    """How many elements each lane of a grid has along each dimension, padding included."""
    return tuple(-(-n // g) for n, g in zip(shape, grid, strict=True))


def local_type(dtype: DType, shape: Sequence[int], grid: Sequence[int], lanes: int) -> ElementType:
    """What each lane of a grid has of a tile: a vector of one dimension, a matrix of the last two; before these the
    grid is as long as the tile."""
    size = " x ".join(map(str, grid))
    require(len(grid) == len(shape), f"a grid of {len(grid)} dimensions for a tile of {len(shape)}")
    require(
        prod(grid) == lanes,
        f"a grid of {size} threads for a group of {lanes}",
        f"give it {lanes} threads, for example by a first dimension over matrices side by side",
    )
    require(
        all(g & (g - 1) == 0 for g in grid[1:]),
        f"the grid {size} has a later dimension that is no power of 2",
    )
    first, *_ = *outer, last = slots(shape, grid)
    require(
        lanes % WARP == 0 or WARP % lanes == 0 or first == 1,
        f"a grid of {lanes} threads does not end with a warp",
        "let its first dimension be as long as that of the tile, or longer",
    )
    require(
        all(n == 1 for n in outer[:-1]),
        f"each thread of the grid {size} would have {slots(shape, grid)} elements of the tile {tuple(shape)}",
        "let the grid be as long as the tile in all but the last two dimensions",
    )
    return MatType(outer[-1], last, dtype) if outer else VecType(last, dtype)


class TileFromThread(Op):
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


class Lanes(Op):
    """Lane-varying code between two points where the lanes synchronise, made by `passes/split_lanes.py`. The region has
    no arguments and may use any outer value; varying ones mean the lane's own. Results: per-lane values."""

    __slots__ = ()
    NAME = "lanes"
    VARYING = True
    PURE = False
    body = body()

    def infer(self) -> Sequence[Type]:
        require(not self.body.args, "a lane region takes no arguments")
        return [v.type for v in self.body.yielded]


class LaneIndex(Op):
    """The lane's number in its group, int32: of the block, or of the role inside one."""

    __slots__ = ()
    NAME = "lane.index"
    VARYING = True

    def infer(self) -> Sequence[Type]:
        return [int32]


class LaneCount(Op):
    """The number of lanes of the group that are there, int32: in the last block of a launch they may be fewer than in
    the others."""

    __slots__ = ()
    NAME = "lane.count"

    def infer(self) -> Sequence[Type]:
        return [int32]


class BlockIndex(Op):
    """The number of this block in the grid, int32, from 0."""

    __slots__ = ()
    NAME = "block.index"

    def infer(self) -> Sequence[Type]:
        return [int32]


class BlockCount(Op):
    """The number of blocks in the grid, int32."""

    __slots__ = ()
    NAME = "block.count"

    def infer(self) -> Sequence[Type]:
        return [int32]


def numbers_blocks(kernel: Kernel) -> bool:
    """Whether blocks are numbered by integers of 32 bits: launches have fewer of them then."""
    return any(isinstance(op, BlockPlace | BlockIndex | BlockCount) for op in kernel.walk())


MOST_NUMBERED = 2**31 - 1
