"""Ops on lanes: indices and counts of lanes and blocks, and conversions between per-lane values and tiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from tegula.ir import ActsOnLines, Kernel, LaneTile, MemoryFence, Op, TargetQuery, Value
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
    bool_,
    element_shape,
    int32,
    int64,
    scalar_of,
)

if TYPE_CHECKING:
    from tegula.ops.gradient import GradientBuilder

Attrs = Mapping[str, Any]
WARP = 32
ORDERS = ("acquire", "release", "acq_rel")
"""The memory orders of fences."""


class Tid(Op):
    """The first `count` (attribute) components of the thread index, int32. The launch class determines which components
    are uniform. Optional operand: the number of the block, int64, the same in all lanes."""

    __slots__ = ()
    NAME = "tid"
    VARYING = True
    block = optional()
    count = attr()

    def infer(self) -> Sequence[Type]:
        require(self.block is None or self.block.type == int64, "a block's number is an int64")
        return [int32] * self.count


class LogicalBlocks(Op):
    """The logical blocks that one CTA runs one after another: the number of the first block, the exclusive end, and the
    step, int64. Attribute `scale`: a pair (up, down) for each dimension of the grid; a logical block has the length of
    up / down blocks of the launch. If `scale` is empty, logical blocks are blocks of the launch."""

    __slots__ = ()
    NAME = "logical_blocks"
    scale = attr(())
    first = output()
    end = output()
    step = output()

    def infer(self) -> Sequence[Type]:
        return [int64] * 3


class BlockCoordinate(Op):
    """The index of a block along dimension `dim` (attribute) of the launch, int32; `dim` is not the dimension of the
    lanes. Operand: the block's number, int64. Attribute `raster`: the order of numbers is column-major in groups of
    `raster` rows of the last two dimensions; 1 is row-major order. Attribute `scale`: as in `logical_blocks`; the index
    counts parts of blocks: `down` parts are a block of the launch, `up` parts a logical block. The last logical block
    of a dimension ends with the last block of the launch, and overlaps the previous logical block if the number of
    parts is not a multiple of `up`."""

    __slots__ = ()
    NAME = "block.coordinate"
    block = operand()
    dim = attr()
    raster = attr()
    scale = attr(())

    def infer(self) -> Sequence[Type]:
        require(self.block.type == int64, "a block's number is an int64")
        require(self.raster > 0, "a raster has at least one row")
        return [int32]


class LaneFence(MemoryFence):
    """Orders the accesses of each lane that runs the op, as all threads of the device see them. Attribute `order`, one
    of ORDERS: "acquire" keeps later accesses after earlier reads, "release" keeps earlier accesses before later writes,
    and "acq_rel" does both. Accesses of arrays by cooperative ops are on the same side of the op in all lanes."""

    __slots__ = ()
    NAME = "lane.fence"
    PURE = False
    OBSERVED = True
    VARYING = True
    EACH_LANE = True
    NONDIFFERENTIABLE = "blocks that wait for each other have no adjoint"
    order = attr()

    def infer(self) -> Sequence[Type]:
        require(self.order in ORDERS, f"no memory order '{self.order}'")
        return []


class LaneUniform(Op):
    """Broadcasts lane 0's value to all lanes of the group. Debug mode reports lanes with another value. Attribute
    `implicit`: the op was inserted for an operand of a cooperative op, for which lane 0's value is used."""

    __slots__ = ()
    NAME = "lane.uniform"
    COOPERATIVE = True
    value = operand()
    implicit = attr(False)

    def infer(self) -> Sequence[Type]:
        return [element(self.value.type)]

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        return grads


class TileFromLanes(LaneTile):
    """One element per lane: a tile of shape (lanes,), or, unless `preserve_type`, (length, lanes) for vectors and
    (rows, cols, lanes) for matrices. Attributes: `lanes` (the group's size), `preserve_type`, `partial`.

    With `grid`: a tile of `shape` in which lane (i, j, ..) of the grid holds the elements [i::grid[0], j::grid[1], ..];
    components beyond the tile are dropped, and the values of absent lanes are 0."""

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
            expected = local_type(scalar_of(t), self.shape, self.grid, lanes)
            message = f"a tile of shape {self.shape} on the grid {self.grid} takes {expected} of each thread, got {t}"
            require(t == expected, message)
            return [TileType(scalar_of(t), tuple(self.shape))]
        if self.preserve_type:
            return [TileType(t, (lanes,), self.partial)]
        return [TileType(scalar_of(t), (*element_shape(t), lanes), self.partial)]

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        return (b.one(TileToLanes, [g], {"lanes": self.lanes, "grid": self.grid}),)


class TileToLanes(LaneTile):
    """Each lane's element of a tile whose last dimension is the group's size (`lanes`): the inverse of
    `tile.from_lanes`. A tile of rank 1 gives a scalar, of rank 2 a vector, of rank 3 a matrix. With `grid`: the
    elements that the lane holds; components beyond the tile are 0."""

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
    """The number of elements of each lane of a grid along each dimension, padding included."""
    return tuple(-(-n // g) for n, g in zip(shape, grid, strict=True))


def local_type(dtype: DType, shape: Sequence[int], grid: Sequence[int], lanes: int) -> ElementType:
    """The type of a lane's elements of a tile on a grid: a vector for one dimension, else a matrix for the last two. In
    the other dimensions the grid must be as long as the tile."""
    size = " x ".join(map(str, grid))
    require(len(grid) == len(shape), f"the grid has {len(grid)} dimensions, the tile {len(shape)}")
    require(
        prod(grid) == lanes,
        f"the grid has {size} threads, the group {lanes}",
        f"use a grid of {lanes} threads, for example with a first dimension for a batch of matrices",
    )
    require(
        all(g & (g - 1) == 0 for g in grid[1:]),
        f"every dimension of the grid {size} but the first must be a power of 2",
    )
    first, *_ = *outer, last = slots(shape, grid)
    require(
        lanes % WARP == 0 or WARP % lanes == 0 or first == 1,
        f"the threads of a grid of {lanes} threads are not whole warps",
        "make the grid's first dimension at least as long as the tile's",
    )
    require(
        all(n == 1 for n in outer[:-1]),
        f"each thread of the grid {size} would have {slots(shape, grid)} elements of the tile {tuple(shape)}",
        "let the grid be as long as the tile in all but the last two dimensions",
    )
    return MatType(outer[-1], last, dtype) if outer else VecType(last, dtype)


class TileFromThread(Op):
    """A tile of `shape` (attribute) filled with one lane's value; 0 if the lane is absent or outside of the group.
    Operands: per-lane value, lane (integer)."""

    __slots__ = ()
    NAME = "tile.from_thread"
    COOPERATIVE = True
    value = operand(lane=True)
    thread = operand(index=True)
    shape = attr()

    def infer(self) -> Sequence[Type]:
        require(
            getattr(self.thread.type, "is_int", False), f"the lane must be an integer, got {self.thread.type}"
        )
        return [TileType(element(self.value.type), tuple(self.shape))]

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        thread = b.one(LaneUniform, [b.primal(self.thread)], {"implicit": True})
        is_source = b.one(
            Cmp, [b.as_scalar(b.one(LaneIndex, []), scalar_of(element(thread.type))), thread], {"pred": "eq"}
        )
        total = b.total(g)
        return b.one(Select, [is_source, total, b.zero(total.type)]), None


class Lanes(ActsOnLines):
    """Code between two cooperative ops that each lane runs independently, inserted by `passes/split_lanes.py`. The
    region has no arguments and may use any outer value; each lane uses its own element of a varying value. Results:
    per-lane values."""

    __slots__ = ()
    NAME = "lanes"
    VARYING = True
    PURE = False
    EXCHANGES = True
    body = body()

    def infer(self) -> Sequence[Type]:
        require(not self.body.args, "a lane region takes no arguments")
        return [v.type for v in self.body.yielded]


class LaneIndex(Op):
    """The lane's index in its group, int32: inside a role, in the role; otherwise in the block."""

    __slots__ = ()
    NAME = "lane.index"
    VARYING = True

    def infer(self) -> Sequence[Type]:
        return [int32]


class LaneCount(Op):
    """The number of present lanes of the group, int32; the last block of a launch may have fewer than the others."""

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


class OnGpu(TargetQuery):
    """Whether the kernel is compiled for a GPU; false in the interpreter."""

    __slots__ = ()
    NAME = "target.is_gpu"

    def infer(self) -> Sequence[Type]:
        return [bool_]

    @property
    def of_gpu(self) -> bool:
        return True


def uses_block_numbers(kernel: Kernel) -> bool:
    """Whether a kernel uses block numbers in 32 bits, which limits the number of blocks of a launch."""
    return any(isinstance(op, BlockCoordinate | BlockIndex | BlockCount) for op in kernel.walk())


MAX_BLOCK_NUMBER = 2**31 - 1
