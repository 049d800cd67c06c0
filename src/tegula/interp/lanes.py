"""Constants, thread indices, conversions between lanes and tiles, print and assert."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tegula.errors import InternalError
from tegula.interp.machine import Machine, Mask, handles
from tegula.ops.convert import convert
from tegula.ops.cooperative import CooperativeCall
from tegula.ops.debug import Assert, Breakpoint, Print, PrintTile
from tegula.ops.gradient import Call
from tegula.ops.lane import (
    BlockCoordinate,
    BlockCount,
    BlockIndex,
    LaneCount,
    LaneFence,
    LaneIndex,
    LaneUniform,
    LogicalBlocks,
    OnGpu,
    Tid,
    TileFromLanes,
    TileFromThread,
    TileToLanes,
    slots,
)
from tegula.ops.scalar import Const
from tegula.ops.tile import tile_type
from tegula.ops.vector import VecUnset
from tegula.types import ElementType, element_shape, scalar_of, to_numpy


def constant(value: Any, t: ElementType) -> np.ndarray:
    """A Python number, or nested tuples of them, as an element: an array of the element's shape. Integers
    wrap; one number fills all components."""
    scalar = scalar_of(t)
    shape = element_shape(t)
    if scalar.is_int:
        low = -(1 << (scalar.bits - 1)) if scalar.is_signed else 0
        exact = np.array(value, dtype=object)
        flat = [(int(v) - low) % (1 << scalar.bits) + low for v in exact.reshape(-1)]
        result = np.array(flat, to_numpy(scalar)).reshape(exact.shape)
    else:
        result = convert(np.array(value, np.float64), to_numpy(scalar))
    return np.broadcast_to(result, shape).copy()


@handles(Call, CooperativeCall)
def run_call(m: Machine, op: Call, mask: Mask) -> Any:
    results = m.region(op.function, [m.env[v] for v in op.operands], mask)
    return results[0] if len(results) == 1 else tuple(results)


@handles(Const)
def run_const(m: Machine, op: Const, mask: Mask) -> Any:
    return m.broadcast(constant(op.value, op.type))


@handles(VecUnset)
def run_unset(m: Machine, op: VecUnset, mask: Mask) -> Any:
    """Alternating bits, so that tests notice a component that is read before it is replaced."""
    dtype = to_numpy(scalar_of(op.type))
    shape = element_shape(op.type)
    pattern = np.full(dtype.itemsize * math.prod(shape), 0xA5, np.uint8).view(dtype)
    return m.broadcast(pattern.reshape(shape))


@handles(Tid)
def run_tid(m: Machine, op: Tid, mask: Mask) -> Any:
    count, tid = op.count, m.tid
    if count > len(tid):
        raise InternalError(
            f"{op.loc}: the kernel reads {count} components of the thread index, the launch has {len(tid)}"
        )
    if op.block is not None:
        lanes = m.report.kernel.launch.block_dim
        tid = [np.resize(c, m.lanes) for c in m.grid.thread_indices(int(m.group(op.block)), lanes)[0]]
    return tid[0] if count == 1 else tuple(tid[:count])


@handles(LogicalBlocks)
def run_logical_blocks(m: Machine, op: LogicalBlocks, mask: Mask) -> Any:
    end = math.prod(scaled_grid(m.grid.dims, op.scale)) if op.scale else m.grid.blocks
    return tuple(m.broadcast(np.array(n)) for n in (m.block, end, m.grid.hardware))


@handles(BlockCoordinate)
def run_place(m: Machine, op: BlockCoordinate, mask: Mask) -> Any:
    *outer, rows, columns = (1, *scaled_grid(m.grid.dims, op.scale))
    number, inside = divmod(int(m.group(op.block)), rows * columns)
    group, rest = divmod(inside, op.raster * columns)
    first = group * op.raster
    height = min(op.raster, rows - first)
    coordinates = [*np.unravel_index(number, tuple(outer) or (1,)), first + rest % height, rest // height]
    coordinate = coordinates[len(coordinates) - len(m.grid.dims) + 1 + op.dim]
    if op.scale:
        numerator, denominator = op.scale[op.dim]
        coordinate = min(coordinate * numerator, m.grid.dims[op.dim] * denominator - numerator)
    return m.broadcast(np.array(coordinate, np.int32))


def scaled_grid(dims: Sequence[int], scale: Sequence[tuple[int, int]]) -> list[int]:
    """The grid of logical blocks of a launch, scaled as in `logical_blocks`."""
    grid = dims[:-1]
    return [
        -(-n * denominator // numerator)
        for n, (numerator, denominator) in zip(grid, scale or ((1, 1),) * len(grid), strict=True)
    ]


@handles(LaneIndex)
def run_lane(m: Machine, op: LaneIndex, mask: Mask) -> Any:
    return np.arange(m.lanes, dtype=np.int32)


@handles(LaneCount)
def run_count(m: Machine, op: LaneCount, mask: Mask) -> Any:
    return m.broadcast(np.array(m.count, np.int32))


@handles(BlockIndex)
def run_block(m: Machine, op: BlockIndex, mask: Mask) -> Any:
    return np.full(m.lanes, m.block, np.int32)


@handles(BlockCount)
def run_blocks(m: Machine, op: BlockCount, mask: Mask) -> Any:
    return np.full(m.lanes, m.blocks, np.int32)


@handles(OnGpu)
def run_target(m: Machine, op: OnGpu, mask: Mask) -> Any:
    return np.full(m.lanes, not op.of_gpu)


@handles(LaneUniform)
def run_uniform(m: Machine, op: LaneUniform, mask: Mask) -> Any:
    if m.report.debug and not op.implicit:
        for lane in m.differing_lanes(m.env[op.value])[:1]:
            m.report.varying(op, m.block, int(lane))
    return m.broadcast(m.group(op.value))


def _check_group(m: Machine, op: TileFromLanes | TileToLanes) -> None:
    if op.lanes != m.lanes:
        raise InternalError(f"{op.loc}: {op.NAME} for {op.lanes} lanes in a block of {m.lanes}")


@handles(TileFromLanes)
def run_from_lanes(m: Machine, op: TileFromLanes, mask: Mask) -> Any:
    _check_group(m, op)
    x = m.env[op.value].copy()
    x[~m.present] = 0
    if op.grid is not None:
        return _gathered(x, op.shape, op.grid)
    return x if op.preserve_type else np.moveaxis(x, 0, -1)


@handles(TileToLanes)
def run_to_lanes(m: Machine, op: TileToLanes, mask: Mask) -> Any:
    _check_group(m, op)
    tile = m.env[op.tile]
    if op.grid is not None:
        return _spread(tile, op.grid).reshape(m.lanes, *element_shape(op.result.type))  # type: ignore[arg-type]
    rank = len(tile_type(op.tile.type, partial=True).shape)
    return np.moveaxis(tile, rank - 1, 0).copy()


def _spread(tile: np.ndarray, grid: Sequence[int]) -> np.ndarray:
    """The elements of each lane, [lanes, slots..], 0 beyond the tile."""
    count = slots(tile.shape, grid)
    padded = np.pad(tile, [(0, n * g - size) for n, g, size in zip(count, grid, tile.shape, strict=True)])
    pairs = padded.reshape([k for pair in zip(count, grid, strict=True) for k in pair])
    rank = len(grid)
    order = [*range(1, 2 * rank, 2), *range(0, 2 * rank, 2)]
    return pairs.transpose(order).reshape(-1, *count)


def _gathered(x: np.ndarray, shape: Sequence[int], grid: Sequence[int]) -> np.ndarray:
    """The inverse of `_spread`: the tile of the elements of all lanes."""
    count, rank = slots(shape, grid), len(grid)
    order = [k for d in range(rank) for k in (rank + d, d)]
    pairs = x.reshape(*grid, *count).transpose(order)
    matrix = pairs.reshape([n * g for n, g in zip(count, grid, strict=True)])
    return matrix[tuple(slice(n) for n in shape)].copy()


@handles(TileFromThread)
def run_from_thread(m: Machine, op: TileFromThread, mask: Mask) -> Any:
    x = m.env[op.value]
    lane = int(m.group(op.thread))
    is_present = 0 <= lane < m.lanes and bool(m.present[lane])
    value = x[lane] if is_present else np.zeros_like(x[0])
    return np.broadcast_to(value, (*op.shape, *value.shape)).copy()


@handles(Print)
def run_print(m: Machine, op: Print, mask: Mask) -> None:
    values = [m.env[v] for v in op.operands]
    for lane in np.flatnonzero(mask):
        m.report.printed(Print.ref(op.attrs, *(np.asarray(x[lane]) for x in values)), op.end)


@handles(PrintTile)
def run_print_tile(m: Machine, op: PrintTile, mask: Mask) -> None:
    values = [np.asarray(m.group(v)) for v in op.operands]
    m.report.printed(PrintTile.ref(op.attrs, *values), op.end)


@handles(LaneFence)
def run_fence(m: Machine, op: LaneFence, mask: Mask) -> None:
    """Accesses are made in the order of the program."""


@handles(Breakpoint)
def run_breakpoint(m: Machine, op: Breakpoint, mask: Mask) -> None:
    for _ in np.flatnonzero(mask):
        breakpoint()


@handles(Assert)
def run_assert(m: Machine, op: Assert, mask: Mask) -> None:
    for lane in np.flatnonzero(mask & ~m.env[op.condition])[:1]:
        values = (np.asarray(m.env[v][lane]) for v in op.values)
        m.report.assertion(op, Assert.text(op.attrs, *values), m.block, int(lane))
