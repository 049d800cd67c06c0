"""Subscripts with tiles: gathers and scatters by tiles of indices, assignments by masks."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tegula.dataclass import dataclass
from tegula.ir import TypeRule, Value
from tegula.ops import scalar as S
from tegula.ops.array_gather import ArrayGather, ArrayScatter, ArrayScatterAtomic
from tegula.ops.base import require
from tegula.ops.buffer import BufNew, BufRead
from tegula.ops.build_coordinates import along_dimension, coordinate, reshaped, select_all
from tegula.ops.builder import OpBuilder, Operand, describe, is_slice
from tegula.ops.control import For
from tegula.ops.integer_ranges import INDEX_RANGE
from tegula.ops.tile import TileArange, TileGather, TileReduce, TileSlice, add_at, check_shape, tile_type
from tegula.types import ArrayType, ElementType, bool_, int32, int64, scalar_of, uint64

COMPARED_PAIRS = 1 << 13
"""The maximum number of pairs (index, element) of one comparison of a scatter, if elements are fewer. A comparison
is unrolled in GPU code; more pairs are compared in a loop."""


@dataclass(frozen=True, slots=True)
class IndexTiles:
    """The tiles of indices of a subscript. `tile_positions`: the positions of the tiles in the subscript; `tiles`: the
    tiles, of int64 and of one shape."""

    tile_positions: tuple[int, ...]
    tiles: list[Value]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tiles."""
        return tile_type(self.tiles[0].type).shape


def has_mask(b: OpBuilder, index: Sequence[Operand]) -> bool:
    """Whether a subscript is a mask: one tile of bool."""
    return len(index) == 1 and b.is_tile(index[0]) and tile_type(b.tile(index[0]).type).dtype == bool_


def index_tiles(b: OpBuilder, index: Sequence[Operand]) -> IndexTiles:
    """The tiles of a subscript; raises TypeRule unless all are tiles of integers without a slice between two
    indices."""
    tile_positions = tuple(k for k, i in enumerate(index) if b.is_tile(i))
    for k in tile_positions:
        t = tile_type(b.tile(index[k]).type)
        help = "select elements by a mask with tg.where(mask, x, t)" if t.dtype == bool_ else ""
        if not scalar_of(t.dtype).is_int or t.dtype != scalar_of(t.dtype):
            raise TypeRule(f"an index must be an integer index tile, got {t}", help, culprit=index[k])
    separated = any(
        not is_slice(i) and any(is_slice(entry) for entry in index[min(k, position) + 1 : max(k, position)])
        for position in tile_positions
        for k, i in enumerate(index)
    )
    help = "take the index first, as in t[0][:, indices]"
    require(not separated, "an index and a tile of indices cannot be separated by a slice", help)
    tiles = [_as_int64(b, b.tile(index[k])) for k in tile_positions]
    shapes = [tile_type(v.type).shape for v in tiles]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        raise TypeRule(
            "", "", "ShapeMismatch", what="tiles of indices", left=shapes[0], right=shapes[-1]
        ) from None
    return IndexTiles(tile_positions, [b.broadcast(v, shape) for v in tiles])


def _as_int64(b: OpBuilder, positions: Value) -> Value:
    """Indices as int64; indices beyond the range of int64 remain out of bounds of every tile and array."""
    if tile_type(positions.type).dtype == uint64:
        positions = b.map(lambda xs: b.within(xs[0], INDEX_RANGE[1]), [positions])
    return b.tile(b.cast(positions, int64))


# Tiles ----------------------------------------------------------------------------------------------------------------


def gather(b: OpBuilder, tile: Value, index: IndexTiles, first: int) -> Value:
    """The elements of a tile at indices. `tile`: a tile whose dimensions from `first` on are indexed, one by each tile
    of indices; the other dimensions are unchanged."""
    value = b.tile(tile)
    value_shape = tile_type(value.type).shape
    leading, trailing = value_shape[:first], value_shape[first + len(index.tiles) :]
    shape = check_shape((*leading, *index.shape, *trailing))
    flat = reshaped(b, value, (*leading, -1, *trailing))
    positions = reshaped(
        b, _flat_positions(b, index, value_shape[first : len(value_shape) - len(trailing)]), (-1,)
    )
    return reshaped(b, b.one(TileGather, [flat, positions], {"axis": first}), shape)


def _flat_positions(b: OpBuilder, index: IndexTiles, lengths: Sequence[int]) -> Value:
    """The row-major position of each index in the indexed dimensions; for indices outside of the dimensions, the number
    of elements."""

    def position(xs: list[Value]) -> Value:
        inside, total = b.const(True, bool_), b.const(0, int64)
        for x, n in zip(xs, lengths, strict=True):
            zero, size = b.const(0, int64), b.const(n, int64)
            i = b.one(S.Select, [b.one(S.Cmp, [x, zero], {"pred": "lt"}), b.one(S.Add, [x, size]), x])
            for pred, end in (("ge", zero), ("lt", size)):
                inside = b.one(S.And, [inside, b.one(S.Cmp, [i, end], {"pred": pred})])
            total = b.one(S.Add, [b.one(S.Mul, [total, size]), i])
        return b.one(S.Select, [inside, total, b.const(prod(lengths), int64)])

    return b.map(position, index.tiles)


def scatter(b: OpBuilder, tile: Value, index: IndexTiles, first: int, value: Operand, op: str = "") -> None:
    """Assign to the elements of a tile object at indices; if several values are assigned to one element, the last one
    is kept. `op`: "add" or "sub" to add or subtract all values."""
    current = b.tile(tile)
    t = tile_type(current.type)
    leading, trailing = t.shape[:first], t.shape[first + len(index.tiles) :]
    lengths = t.shape[first : len(t.shape) - len(trailing)]
    source = _assigned_values(b, value, (*leading, *index.shape, *trailing), t.dtype)
    flat_values = reshaped(b, source, (*leading, -1, *trailing))
    positions = reshaped(b, _flat_positions(b, index, lengths), (-1,))
    flat = reshaped(b, current, (*leading, -1, *trailing))
    if op:
        buffer = b.one(BufNew, [flat], {"storage": "register"})
        add_at(
            b, buffer, flat_values if op == "add" else b.tile(b.unary("neg", flat_values)), positions, first
        )
        updated = b.one(BufRead, [buffer])
    else:
        writers = _last_writers(b, positions, prod(lengths))
        gathered = b.one(TileGather, [flat_values, writers], {"axis": first})
        count = b.const(tile_type(positions.type).size, int32)
        is_written = b.map(lambda xs: b.one(S.Cmp, xs, {"pred": "lt"}), [writers, count])
        is_written = b.broadcast(
            along_dimension(b, is_written, len(leading) + 1 + len(trailing), first),
            tile_type(flat.type).shape,
        )
        updated = b.map(lambda xs: b.one(S.Select, xs), [is_written, gathered, flat])
    b.write(tile, reshaped(b, updated, t.shape))


def _last_writers(b: OpBuilder, numbers: Value, length: int) -> Value:
    """For each of `length` elements, the position of the last entry of a 1-D tile of indices that refers to the
    element; the number of entries if no entry does."""
    count = tile_type(numbers.type).size
    chunk_length = min(count, max(COMPARED_PAIRS // length, 1))
    looped = count // chunk_length * chunk_length
    if looped == chunk_length:
        writers = _last_writers_in_chunk(b, numbers, length, b.const(0, int32), chunk_length)
    else:
        unwritten = b.full((length,), b.const(-1, int32), int32)

        def step(arguments: list[Value]) -> Value:
            start, last_positions = arguments
            in_chunk = _last_writers_in_chunk(b, numbers, length, start, chunk_length)
            return _larger(b, last_positions, in_chunk)

        body = b.region_of([int32, unwritten.type], step)
        bounds = [b.const(n, int32) for n in (0, looped, chunk_length)]
        writers = b.one(For, [*bounds, unwritten], None, [body])
    if looped < count:
        remaining = _last_writers_in_chunk(b, numbers, length, b.const(looped, int32), count - looped)
        writers = _larger(b, writers, remaining)
    no_writer, end = b.const(-1, int32), b.const(count, int32)
    return b.map(
        lambda xs: b.one(S.Select, [b.one(S.Cmp, [xs[0], no_writer], {"pred": "eq"}), end, xs[0]]), [writers]
    )


def _larger(b: OpBuilder, left: Value, right: Value) -> Value:
    """The larger element of two tiles of integers at each place."""
    return b.map(lambda xs: b.one(S.Max, xs), [left, right])


def _last_writers_in_chunk(b: OpBuilder, numbers: Value, length: int, start: Value, count: int) -> Value:
    """For each of `length` elements, the position of the last of `count` entries from `start` on that refers to the
    element; -1 if none does."""
    elements = b.one(TileArange, [b.const(0, int64), b.const(1, int64)], {"count": length})
    chunk = b.one(TileSlice, [numbers, start], {"shape": (count,), "dims": (0,), "steps": (1,)})
    indices = b.one(TileArange, [start, b.const(1, int32)], {"count": count})

    def named(xs: list[Value]) -> Value:
        same = b.one(S.Cmp, xs[:2], {"pred": "eq"})
        return b.one(S.Select, [same, xs[2], b.const(-1, int32)])

    operands = [(chunk, 0), (elements, 1), (indices, 0)]
    named_at = b.map(named, [along_dimension(b, tile, 2, dimension) for tile, dimension in operands])
    region = b.region_of([int32, int32], lambda xs: b.one(S.Max, xs))
    return b.one(TileReduce, [named_at], {"axis": 0, "keepdims": False}, [region])


def _assigned_values(b: OpBuilder, value: Operand, shape: Sequence[int], t: ElementType) -> Value:
    """The assigned values as a tile of `shape`."""
    values = b.tile(value) if b.is_tile(value) else b.full(shape, value, t)
    type_of_values = tile_type(values.type)
    message = f"the elements are {t}, but the value is {type_of_values.dtype}"
    require(type_of_values.dtype == t, message, f"convert the value: tg.tile_astype(..., tg.{scalar_of(t)})")
    if len(type_of_values.shape) > len(shape) or any(
        n not in (1, m) for n, m in zip(reversed(type_of_values.shape), reversed(shape), strict=False)
    ):
        message = "assignment to elements"
        raise TypeRule("", "", "ShapeMismatch", what=message, left=tuple(shape), right=type_of_values.shape)
    return b.broadcast(values, shape)


def assign_where(b: OpBuilder, x: Value, mask: Operand, value: Operand) -> None:
    """Assign to the elements of a tile object that a mask of its first dimensions selects."""
    current, selected = b.tile(x), b.tile(mask)
    t, shape = tile_type(current.type), tile_type(selected.type).shape
    if shape != t.shape[: len(shape)]:
        raise TypeRule("", "", "ShapeMismatch", what="mask of an assignment", left=shape, right=t.shape)
    selected = b.broadcast(reshaped(b, selected, (*shape, *(1,) * (len(t.shape) - len(shape)))), t.shape)
    source = _assigned_values(b, value, t.shape, t.dtype)
    b.write(x, b.map(lambda xs: b.one(S.Select, xs), [selected, source, current]))


# Arrays ---------------------------------------------------------------------------------------------------------------


def _array_coordinates(
    b: OpBuilder, t: ArrayType, index: Sequence[Operand]
) -> tuple[tuple[int, ...], list[Value]]:
    """The shape and the coordinates of the array elements that a subscript with tiles selects."""
    require(
        len(index) <= t.ndim,
        f"an array with {t.ndim} dimensions takes at most {t.ndim} indices, got {len(index)}",
    )
    index = [*index, *[slice(None)] * (t.ndim - len(index))]
    selection = index_tiles(b, index)
    shape: list[int] = []
    for k, i in enumerate(index):
        if k == selection.tile_positions[0]:
            shape += selection.shape
        if is_slice(i):
            shape.append(len(_constant_range(i)))
    check_shape(shape)
    tiles, index_operands, d = iter(selection.tiles), list[Value](), 0
    for k, i in enumerate(index):
        if k in selection.tile_positions:
            before = sum(is_slice(j) for j in index[: selection.tile_positions[0]])
            after = len(shape) - before - len(selection.shape)
            reshaped_tile = reshaped(b, next(tiles), (*(1,) * before, *selection.shape, *(1,) * after))
            index_operands.append(b.broadcast(reshaped_tile, shape))
        elif is_slice(i):
            bounds, dimension = (
                _constant_range(i),
                d if k < selection.tile_positions[0] else d + len(selection.shape),
            )
            indices = b.one(
                TileArange,
                [b.const(bounds.start, int64), b.const(bounds.step, int64)],
                {"count": len(bounds)},
            )
            index_operands.append(coordinate(b, shape, dimension, b.const(0, int64), indices))
            d += 1
        else:
            index_operands.append(b.full(shape, b.cast(b.index(i), int64)))
    return tuple(shape), index_operands


def _constant_range(subscript: slice[Operand, Operand, Operand]) -> range:
    """The indices that a slice with constant bounds selects; the length of the dimension is not used."""
    start, step = (
        (0 if subscript.start is None else subscript.start),
        (1 if subscript.step is None else subscript.step),
    )
    for bound in (start, subscript.stop, step):
        if not isinstance(bound, int) or isinstance(bound, bool):
            message = "the end of a slice next to an index tile, which becomes a dimension of the result,"
            message = (
                message if bound is None else "the bounds of a slice of an array next to a tile of indices"
            )
            help = "write the bounds, as in a[indices, 0:4]" if bound is None else ""
            raise TypeRule("", help, "NotConstant", culprit=bound, what=message)
    assert isinstance(start, int) and isinstance(subscript.stop, int) and isinstance(step, int)
    message = (
        f"slice {start}:{subscript.stop}:{step} next to a tile of indices: needs 0 <= start < stop, step > 0"
    )
    require(0 <= start < subscript.stop and step > 0, message, "use constant bounds, as in a[indices, 0:4]")
    return range(start, subscript.stop, step)


def _with_slice_ends(
    b: OpBuilder, t: ArrayType, index: Sequence[Operand], value: Operand
) -> Sequence[Operand]:
    """The subscript of an assignment to an array, where slices without bounds have the length of the corresponding
    dimension of the assigned tile."""
    full_index = [*index, *[slice(None)] * (t.ndim - len(index))]
    if not b.is_tile(value) or len(full_index) > t.ndim:
        return index
    selection = index_tiles(b, full_index)
    lengths = list(tile_type(b.tile(value).type).shape)
    first = sum(map(is_slice, full_index[: selection.tile_positions[0]]))
    lengths[first : first + len(selection.shape)] = []
    if len(lengths) != sum(map(is_slice, full_index)):
        return index
    ends = iter(lengths)
    entries = [(i, next(ends) if is_slice(i) else 0) for i in full_index]
    return [slice(0, n) if is_slice(i) and i == slice(None) else i for i, n in entries]


def array_gather(b: OpBuilder, x: Value, t: ArrayType, index: Sequence[Operand]) -> Value:
    """x[index] for an array and a subscript with tiles; 0 for elements outside of the array."""
    shape, index_operands = _array_coordinates(b, t, index)
    return b.one(ArrayGather, [x, b.const(0, t.dtype), select_all(b, shape), *index_operands])


def array_scatter(
    b: OpBuilder, x: Value, t: ArrayType, index: Sequence[Operand], value: Operand, op: str = ""
) -> None:
    """x[index] = value for an array and a subscript with tiles; with `op`, "add" or "sub", atomic updates."""
    shape, index_operands = _array_coordinates(b, t, _with_slice_ends(b, t, index, value))
    source = _assigned_values(b, value, shape, t.dtype)
    if not op:
        b.emit(ArrayScatter, [x, source, select_all(b, shape), *index_operands])
        return
    added = source if op == "add" else b.tile(b.unary("neg", source))
    b.emit(ArrayScatterAtomic, [x, added, select_all(b, shape), *index_operands], {"op": "add"})


def mask_read_error(x: Operand) -> TypeRule:
    """The error for a subscript that reads elements by a mask: the number of elements is not constant."""
    return TypeRule(
        f"{describe(x)} cannot be indexed by a mask: the number of elements would not be constant",
        "select elements by a mask with tg.where(mask, x, t)",
    )
