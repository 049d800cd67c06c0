"""Reductions in vectorised blocks. Elements are combined in the same order as in a single block: element-wise in SIMD
registers, then the halves of a register, as in `codegen.tiles`."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING

from tegula.codegen.blocks_in_lanes.differences import LANE_OPS, NotVectorisable
from tegula.ir import Value
from tegula.ir.rewrite import clone_region
from tegula.ops.concat import TileConcat
from tegula.ops.control import For, Yield
from tegula.ops.scalar import Add, Max, Min, Mul
from tegula.ops.tile import (
    TileBroadcast,
    TileMap,
    TileReduce,
    TileReshape,
    combination,
    tile_type,
)
from tegula.types import TileType, components, int32, scalar_of

if TYPE_CHECKING:
    from tegula.codegen.blocks_in_lanes.widen import Widening

MAX_ROWS = 8
"""The maximum number of rows that are combined in straight-line code."""


def reduce(w: Widening, op: TileReduce) -> list[Value] | None:
    """The results of a reduction in all blocks; None for a reduction that runs serially, block by block."""
    t = tile_type(op.tile.type)
    if components(t.dtype) != 1:
        return None
    is_total = op.axis is None or len(t.shape) == 1
    kind, scalar = combination(op.combine), scalar_of(t.dtype)
    tile = w.widened_value(op.tile)
    if kind not in (Add, Min, Max, Mul) or scalar.is_bool:
        return [_combine_in_order(w, op, tile, is_total)]
    if not is_total and op.axis != len(t.shape) - 1:
        return [w.put(TileReduce, [tile], [clone_region(op.combine, {})], axis=op.axis, keepdims=op.keepdims)]
    if scalar.is_float and (scalar.bits < 32 or not _is_recomputed(op.tile)):
        raise NotVectorisable("the order of a floating-point reduction is not fixed")
    return [_combine_vectors(w, op, tile, is_total)]


def _is_recomputed(tile: Value) -> bool:
    """Whether a tile is recomputed at every use, in vectors and straight-line code."""
    op = tile.owner
    if not isinstance(op, TileMap | TileBroadcast):
        return components(tile_type(tile.type).dtype) <= MAX_COMPONENTS
    is_straight_line = all(isinstance(x, (*LANE_OPS, Yield)) for x in op.walk() if x is not op)
    return is_straight_line and all(_is_recomputed(v) for v in op.operands if isinstance(v.type, TileType))


MAX_COMPONENTS = 4


class _Combine:
    """The element-wise combination of tiles of all blocks."""

    def __init__(self, w: Widening, op: TileReduce) -> None:
        self.w, self.op = w, op

    def __call__(self, a: Value, b: Value) -> Value:
        return self.w.put(TileMap, [a, b], [clone_region(self.op.combine, {})])

    def rows(self, tile: Value, start: int, length: int) -> Value:
        """A range of the last dimension before the block dimension."""
        *leading, _, _ = tile_type(tile.type).shape
        rank = len(leading) + 1
        starts = [*(self.w.number(0) for _ in leading), self.w.number(start)]
        return self.w.part(tile, starts, (*leading, length), range(rank), (1,) * rank)


def _combine_in_order(w: Widening, op: TileReduce, tile: Value, is_total: bool) -> Value:
    """Combine elements serially, in order."""
    shape = tile_type(op.tile.type).shape
    combine, axis = _Combine(w, op), 0 if is_total else op.axis
    if is_total:
        shape = (prod(shape),)
        tile = w.put(TileReshape, [tile], shape=(*shape, w.lanes))
    slice_shape, rank = [1 if d == axis else n for d, n in enumerate(shape)], len(shape)

    def element_at(position: Value) -> Value:
        starts = [position if d == axis else w.number(0) for d in range(rank)]
        return w.part(tile, starts, slice_shape, range(rank), (1,) * rank)

    (total,) = _fold_steps(
        w, [element_at(w.number(0))], shape[axis], lambda k, sums: [combine(sums[0], element_at(k))]
    )
    return _reshape_result(w, op, total)


def _combine_vectors(w: Widening, op: TileReduce, tile: Value, is_total: bool) -> Value:
    """Combine the vectors of a row, which have the width of a single block's registers, in one or more accumulators;
    then combine the accumulators, then the halves of the last one. All rows of a tile are combined in order."""
    *leading, n = tile_type(op.tile.type).shape
    combine, width = _Combine(w, op), w.vector_bytes * 8 // scalar_of(tile_type(op.tile.type).dtype).bits
    while width > n:
        width //= 2
    full_vectors = n // width
    registers = (
        4
        if full_vectors % 4 == 0 and full_vectors >= 4
        else 2
        if full_vectors % 2 == 0 and full_vectors >= 2
        else 1
    )

    def accumulate(row: Value, sums: list[Value | None]) -> list[Value]:
        """The accumulators after another row."""
        for k in range(full_vectors):
            x = combine.rows(row, k * width, width)
            accumulator = sums[k % registers]
            sums[k % registers] = x if accumulator is None else combine(accumulator, x)
        position, length = full_vectors * width, width
        while position < n:
            while length > n - position:
                length //= 2
            first = sums[0]
            assert first is not None
            low = combine(combine.rows(first, 0, length), combine.rows(row, position, length))
            high = combine.rows(first, length, width - length)
            sums[0] = w.put(TileConcat, [low, high], axis=len(tile_type(low.type).shape) - 2)
            position += length
        return [s for s in sums if s is not None]

    empty: list[Value | None] = [None] * registers
    if is_total and leading:
        rows = prod(leading)
        matrix = w.put(TileReshape, [tile], shape=(rows, n, w.lanes))

        def row(k: Value) -> Value:
            return w.part(matrix, [k, w.number(0)], (n,), (1,), (1,))

        sums = _fold_steps(
            w, accumulate(row(w.number(0)), empty), rows, lambda k, sums: accumulate(row(k), [*sums])
        )
    else:
        sums = accumulate(tile, empty)
    while len(sums) > 1:
        sums = [combine(a, b) for a, b in zip(sums[::2], sums[1::2], strict=True)]
    (total,) = sums
    while width > 1:
        width //= 2
        total = combine(combine.rows(total, 0, width), combine.rows(total, width, width))
    return _reshape_result(w, op, total)


def _fold_steps(
    w: Widening, values: list[Value], stop: int, step: Callable[[Value, list[Value]], list[Value]]
) -> list[Value]:
    """The values after the steps `values` to stop - 1; `step` maps an index and the previous values to the next
    values."""
    if stop <= MAX_ROWS:
        for k in range(1, stop):
            values = step(w.number(k), values)
        return values
    bounds, types = [w.number(x) for x in (1, stop, 1)], [v.type for v in values]
    with w.region_under_construction([int32, *types]) as body:
        index, *previous = body.args
        w.b.insert(Yield(step(index, previous), []))
    return w.b.insert(For([*bounds, *values], types, None, [body])).results


def _reshape_result(w: Widening, op: TileReduce, total: Value) -> Value:
    """A reduction with kept dimensions, reshaped to the op's result."""
    shape = (*tile_type(op.result.type).shape, w.lanes)
    return total if tile_type(total.type).shape == shape else w.put(TileReshape, [total], shape=shape)
