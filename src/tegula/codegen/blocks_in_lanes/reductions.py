"""Reductions in vectorised blocks. Elements are combined in the same order as in a single block: element-wise in SIMD
registers, then the halves of a register, as in `codegen.tiles`."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING

from tegula.codegen.blocks_in_lanes.differences import SCALARS, OneByOne
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
    """The results of a reduction in all blocks; None for a reduction that runs block by block."""
    t = tile_type(op.tile.type)
    if components(t.dtype) != 1:
        return None
    is_total = op.axis is None or len(t.shape) == 1
    kind, scalar = combination(op.combine), scalar_of(t.dtype)
    tile = w.wide(op.tile)
    if kind not in (Add, Min, Max, Mul) or scalar.is_bool:
        return [_in_order(w, op, tile, is_total)]
    if not is_total and op.axis != len(t.shape) - 1:
        return [w.put(TileReduce, [tile], [clone_region(op.combine, {})], axis=op.axis, keepdims=op.keepdims)]
    if scalar.is_float and (scalar.bits < 32 or not _straight(op.tile)):
        raise OneByOne("the order of a sum is not known")
    return [_side_by_side(w, op, tile, is_total)]


def _straight(tile: Value) -> bool:
    """Whether a tile is recomputed at every use, by vectors and in straight-line code."""
    op = tile.owner
    if not isinstance(op, TileMap | TileBroadcast):
        return components(tile_type(tile.type).dtype) <= MAX_COMPONENTS
    plain = all(isinstance(x, (*SCALARS, Yield)) for x in op.walk() if x is not op)
    return plain and all(_straight(v) for v in op.operands if isinstance(v.type, TileType))


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


def _in_order(w: Widening, op: TileReduce, tile: Value, is_total: bool) -> Value:
    """Combine elements one by one, in order."""
    shape = tile_type(op.tile.type).shape
    combine, axis = _Combine(w, op), 0 if is_total else op.axis
    if is_total:
        shape = (prod(shape),)
        tile = w.put(TileReshape, [tile], shape=(*shape, w.lanes))
    part, rank = [1 if d == axis else n for d, n in enumerate(shape)], len(shape)

    def at(index: Value) -> Value:
        starts = [index if d == axis else w.number(0) for d in range(rank)]
        return w.part(tile, starts, part, range(rank), (1,) * rank)

    (total,) = _repeated(w, [at(w.number(0))], shape[axis], lambda k, sums: [combine(sums[0], at(k))])
    return _shaped(w, op, total)


def _side_by_side(w: Widening, op: TileReduce, tile: Value, is_total: bool) -> Value:
    """Combine vectors of a row, of the width of a single block's registers, in several registers for a long row; then
    the registers, then the halves of the last register. A whole tile is combined row by row."""
    *leading, n = tile_type(op.tile.type).shape
    combine, width = _Combine(w, op), w.vector_bytes * 8 // scalar_of(tile_type(op.tile.type).dtype).bits
    while width > n:
        width //= 2
    full = n // width
    registers = 4 if full % 4 == 0 and full >= 4 else 2 if full % 2 == 0 and full >= 2 else 1

    def added(row: Value, sums: list[Value | None]) -> list[Value]:
        """The accumulator registers after one more row."""
        for k in range(full):
            x = combine.rows(row, k * width, width)
            before = sums[k % registers]
            sums[k % registers] = x if before is None else combine(before, x)
        at, piece = full * width, width
        while at < n:
            while piece > n - at:
                piece //= 2
            first = sums[0]
            assert first is not None
            low = combine(combine.rows(first, 0, piece), combine.rows(row, at, piece))
            high = combine.rows(first, piece, width - piece)
            sums[0] = w.put(TileConcat, [low, high], axis=len(tile_type(low.type).shape) - 2)
            at += piece
        return [s for s in sums if s is not None]

    nothing: list[Value | None] = [None] * registers
    if is_total and leading:
        rows = prod(leading)
        matrix = w.put(TileReshape, [tile], shape=(rows, n, w.lanes))

        def row(k: Value) -> Value:
            return w.part(matrix, [k, w.number(0)], (n,), (1,), (1,))

        sums = _repeated(w, added(row(w.number(0)), nothing), rows, lambda k, sums: added(row(k), [*sums]))
    else:
        sums = added(tile, nothing)
    while len(sums) > 1:
        sums = [combine(a, b) for a, b in zip(sums[::2], sums[1::2], strict=True)]
    (total,) = sums
    while width > 1:
        width //= 2
        total = combine(combine.rows(total, 0, width), combine.rows(total, width, width))
    return _shaped(w, op, total)


def _repeated(
    w: Widening, first: list[Value], stop: int, step: Callable[[Value, list[Value]], list[Value]]
) -> list[Value]:
    """The values after the steps `first` to stop - 1; `step` maps an index and the previous values to the next
    values."""
    if stop <= MAX_ROWS:
        for k in range(1, stop):
            first = step(w.number(k), first)
        return first
    bounds, types = [w.number(x) for x in (1, stop, 1)], [v.type for v in first]
    with w.inside([int32, *types]) as body:
        at, *before = body.args
        w.b.insert(Yield(step(at, before), []))
    return w.b.insert(For([*bounds, *first], types, None, [body])).results


def _shaped(w: Widening, op: TileReduce, total: Value) -> Value:
    """A reduction with kept dimensions, reshaped to the op's result."""
    shape = (*tile_type(op.result.type).shape, w.lanes)
    return total if tile_type(total.type).shape == shape else w.put(TileReshape, [total], shape=shape)
