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
from tegula.ops.build_coordinates import along, coordinate, everywhere, reshaped
from tegula.ops.builder import OpBuilder, Operand, describe, is_slice
from tegula.ops.integer_ranges import INDEX_RANGE
from tegula.ops.tile import TileArange, TileGather, TileReduce, TileSlice, add_at, check_shape, tile_type
from tegula.types import ArrayType, ElementType, bool_, int32, int64, scalar_of, uint64

COMPARED = 1 << 16
"""The number of pairs of an index and an element that are compared at a time, in one scatter."""
MAX_PARTS = 16
"""The maximum number of such comparisons of one scatter."""


@dataclass(frozen=True, slots=True)
class Picked:
    """The parts of a subscript with tiles of indices. `spots`: the positions of the tiles in the subscript; `tiles`:
    the tiles, of int64 and of one shape."""

    spots: tuple[int, ...]
    tiles: list[Value]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tiles."""
        return tile_type(self.tiles[0].type).shape


def has_mask(b: OpBuilder, index: Sequence[Operand]) -> bool:
    """Whether a subscript is a mask: one tile of bool."""
    return len(index) == 1 and b.is_tile(index[0]) and tile_type(b.tile(index[0]).type).dtype == bool_


def picked(b: OpBuilder, index: Sequence[Operand]) -> Picked:
    """The tiles of a subscript; TypeRule unless they are tiles of integers that stand next to each other."""
    spots = tuple(k for k, i in enumerate(index) if b.is_tile(i))
    for k in spots:
        t = tile_type(b.tile(index[k]).type)
        help = "choose elements by a mask with tg.where(mask, x, t)" if t.dtype == bool_ else ""
        if not scalar_of(t.dtype).is_int or t.dtype != scalar_of(t.dtype):
            raise TypeRule(f"an index must be an integer index tile, got {t}", help, culprit=index[k])
    parted = any(
        not is_slice(i) and any(is_slice(between) for between in index[min(k, spot) + 1 : max(k, spot)])
        for spot in spots
        for k, i in enumerate(index)
    )
    help = "take the index first, as in t[0][:, indices]"
    require(not parted, "an index and a tile of indices cannot be separated by a slice", help)
    tiles = [_wide(b, b.tile(index[k])) for k in spots]
    shapes = [tile_type(v.type).shape for v in tiles]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        raise TypeRule(
            "", "", "ShapeMismatch", what="tiles of indices", left=shapes[0], right=shapes[-1]
        ) from None
    return Picked(spots, [b.broadcast(v, shape) for v in tiles])


def _wide(b: OpBuilder, numbers: Value) -> Value:
    """Indices as int64; indices beyond the range of int64 stay outside of every tile and array."""
    if tile_type(numbers.type).dtype == uint64:
        numbers = b.map(lambda xs: b.within(xs[0], INDEX_RANGE[1]), [numbers])
    return b.tile(b.cast(numbers, int64))


# Tiles ----------------------------------------------------------------------------------------------------------------


def gather(b: OpBuilder, part: Value, index: Picked, first: int) -> Value:
    """The elements of a tile at indices. `part`: a tile whose dimensions from `first` on, one for each tile of indices,
    are indexed; the other dimensions are kept."""
    value = b.tile(part)
    value_shape = tile_type(value.type).shape
    before, after = value_shape[:first], value_shape[first + len(index.tiles) :]
    shape = check_shape((*before, *index.shape, *after))
    flat = reshaped(b, value, (*before, -1, *after))
    numbers = reshaped(b, _line(b, index, value_shape[first : len(value_shape) - len(after)]), (-1,))
    return reshaped(b, b.one(TileGather, [flat, numbers], {"axis": first}), shape)


def _line(b: OpBuilder, index: Picked, lengths: Sequence[int]) -> Value:
    """The row-major position of each index in the indexed dimensions; for indices outside of the dimensions, the number
    of elements."""

    def position(xs: list[Value]) -> Value:
        inside, total = b.const(True, bool_), b.const(0, int64)
        for x, n in zip(xs, lengths, strict=True):
            none, size = b.const(0, int64), b.const(n, int64)
            i = b.one(S.Select, [b.one(S.Cmp, [x, none], {"pred": "lt"}), b.one(S.Add, [x, size]), x])
            for pred, end in (("ge", none), ("lt", size)):
                inside = b.one(S.And, [inside, b.one(S.Cmp, [i, end], {"pred": pred})])
            total = b.one(S.Add, [b.one(S.Mul, [total, size]), i])
        return b.one(S.Select, [inside, total, b.const(prod(lengths), int64)])

    return b.map(position, index.tiles)


def scatter(b: OpBuilder, part: Value, index: Picked, first: int, value: Operand, op: str = "") -> None:
    """Assign to the elements of a tile object at indices; if several values are assigned to one element, the last one
    is kept. `op`: "add" or "sub" adds or subtracts all of them."""
    current = b.tile(part)
    t = tile_type(current.type)
    before, after = t.shape[:first], t.shape[first + len(index.tiles) :]
    lengths = t.shape[first : len(t.shape) - len(after)]
    source = _source(b, value, (*before, *index.shape, *after), t.dtype)
    new = reshaped(b, source, (*before, -1, *after))
    numbers = reshaped(b, _line(b, index, lengths), (-1,))
    flat = reshaped(b, current, (*before, -1, *after))
    if op:
        buffer = b.one(BufNew, [flat], {"storage": "register"})
        add_at(b, buffer, new if op == "add" else b.tile(b.unary("neg", new)), numbers, first)
        updated = b.one(BufRead, [buffer])
    else:
        last = _last(b, numbers, prod(lengths))
        gathered = b.one(TileGather, [new, last], {"axis": first})
        count = b.const(tile_type(numbers.type).size, int32)
        is_earlier = b.map(lambda xs: b.one(S.Cmp, xs, {"pred": "lt"}), [last, count])
        is_earlier = b.broadcast(
            along(b, is_earlier, len(before) + 1 + len(after), first), tile_type(flat.type).shape
        )
        updated = b.map(lambda xs: b.one(S.Select, xs), [is_earlier, gathered, flat])
    b.write(part, reshaped(b, updated, t.shape))


def _last(b: OpBuilder, numbers: Value, length: int) -> Value:
    """For each of `length` elements the last position in a 1-D tile of indices that names the element; the number of
    positions if none does."""
    count = tile_type(numbers.type).size
    each = max(COMPARED // length, -(-count // MAX_PARTS), 1)
    order = b.one(TileArange, [b.const(0, int64), b.const(1, int64)], {"count": length})
    best: Value | None = None
    for start in range(0, count, each):
        n = min(each, count - start)
        some = b.one(
            TileSlice, [numbers, b.const(start, int32)], {"shape": (n,), "dims": (0,), "steps": (1,)}
        )
        positions = b.one(TileArange, [b.const(start, int32), b.const(1, int32)], {"count": n})

        def named(xs: list[Value]) -> Value:
            same = b.one(S.Cmp, xs[:2], {"pred": "eq"})
            return b.one(S.Select, [same, xs[2], b.const(-1, int32)])

        named_at = b.map(named, [along(b, some, 2, 0), along(b, order, 2, 1), along(b, positions, 2, 0)])
        region = b.region_of([int32, int32], lambda xs: b.one(S.Max, xs))
        last_positions = b.one(TileReduce, [named_at], {"axis": 0, "keepdims": False}, [region])
        best = last_positions if best is None else b.map(lambda xs: b.one(S.Max, xs), [best, last_positions])
    assert best is not None
    none, beyond = b.const(-1, int32), b.const(count, int32)
    return b.map(
        lambda xs: b.one(S.Select, [b.one(S.Cmp, [xs[0], none], {"pred": "eq"}), beyond, xs[0]]), [best]
    )


def _source(b: OpBuilder, value: Operand, shape: Sequence[int], t: ElementType) -> Value:
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
    current, chosen = b.tile(x), b.tile(mask)
    t, shape = tile_type(current.type), tile_type(chosen.type).shape
    if shape != t.shape[: len(shape)]:
        raise TypeRule("", "", "ShapeMismatch", what="mask of an assignment", left=shape, right=t.shape)
    chosen = b.broadcast(reshaped(b, chosen, (*shape, *(1,) * (len(t.shape) - len(shape)))), t.shape)
    source = _source(b, value, t.shape, t.dtype)
    b.write(x, b.map(lambda xs: b.one(S.Select, xs), [chosen, source, current]))


# Arrays ---------------------------------------------------------------------------------------------------------------


def _array_places(
    b: OpBuilder, t: ArrayType, index: Sequence[Operand]
) -> tuple[tuple[int, ...], list[Value]]:
    """The shape and the coordinates of the array elements that a subscript with tiles selects."""
    require(
        len(index) <= t.ndim,
        f"an array with {t.ndim} dimensions takes at most {t.ndim} indices, got {len(index)}",
    )
    index = [*index, *[slice(None)] * (t.ndim - len(index))]
    selection = picked(b, index)
    shape: list[int] = []
    for k, i in enumerate(index):
        if k == selection.spots[0]:
            shape += selection.shape
        if is_slice(i):
            shape.append(len(_constant_range(i)))
    check_shape(shape)
    tiles, index_operands, d = iter(selection.tiles), list[Value](), 0
    for k, i in enumerate(index):
        if k in selection.spots:
            before = sum(is_slice(j) for j in index[: selection.spots[0]])
            after = len(shape) - before - len(selection.shape)
            spread = reshaped(b, next(tiles), (*(1,) * before, *selection.shape, *(1,) * after))
            index_operands.append(b.broadcast(spread, shape))
        elif is_slice(i):
            own, at = _constant_range(i), d if k < selection.spots[0] else d + len(selection.shape)
            line = b.one(
                TileArange, [b.const(own.start, int64), b.const(own.step, int64)], {"count": len(own)}
            )
            index_operands.append(coordinate(b, shape, at, b.const(0, int64), line))
            d += 1
        else:
            index_operands.append(b.full(shape, b.cast(b.index(i), int64)))
    return tuple(shape), index_operands


def _constant_range(s: slice[Operand, Operand, Operand]) -> range:
    """The indices that a slice with constant bounds selects, whatever the length of its dimension."""
    start, step = (0 if s.start is None else s.start), (1 if s.step is None else s.step)
    for bound in (start, s.stop, step):
        if not isinstance(bound, int) or isinstance(bound, bool):
            message = "the end of a slice next to an index tile, which becomes a dimension of the result,"
            message = (
                message if bound is None else "the bounds of a slice of an array next to a tile of indices"
            )
            help = "write the bounds, as in a[indices, 0:4]" if bound is None else ""
            raise TypeRule("", help, "NotConstant", culprit=bound, what=message)
    assert isinstance(start, int) and isinstance(s.stop, int) and isinstance(step, int)
    message = f"a slice of an array next to a tile of indices counts from 0 to a later end, got {start}:{s.stop}:{step}"
    require(0 <= start < s.stop and step > 0, message, "use constant bounds, as in a[indices, 0:4]")
    return range(start, s.stop, step)


def _closed(b: OpBuilder, t: ArrayType, index: Sequence[Operand], value: Operand) -> Sequence[Operand]:
    """The subscript of an assignment to an array, in which a slice without bounds gets the length of the corresponding
    dimension of the assigned tile."""
    full_index = [*index, *[slice(None)] * (t.ndim - len(index))]
    if not b.is_tile(value) or len(full_index) > t.ndim:
        return index
    selection = picked(b, full_index)
    lengths = list(tile_type(b.tile(value).type).shape)
    at = sum(map(is_slice, full_index[: selection.spots[0]]))
    lengths[at : at + len(selection.shape)] = []
    if len(lengths) != sum(map(is_slice, full_index)):
        return index
    ends = iter(lengths)
    each = [(i, next(ends) if is_slice(i) else 0) for i in full_index]
    return [slice(0, n) if is_slice(i) and i == slice(None) else i for i, n in each]


def array_gather(b: OpBuilder, x: Value, t: ArrayType, index: Sequence[Operand]) -> Value:
    """x[index] for an array and a subscript with tiles; 0 for elements outside of the array."""
    shape, index_operands = _array_places(b, t, index)
    return b.one(ArrayGather, [x, b.const(0, t.dtype), everywhere(b, shape), *index_operands])


def array_scatter(
    b: OpBuilder, x: Value, t: ArrayType, index: Sequence[Operand], value: Operand, op: str = ""
) -> None:
    """x[index] = value for an array and a subscript with tiles; with `op`, "add" or "sub", atomic updates."""
    shape, index_operands = _array_places(b, t, _closed(b, t, index, value))
    source = _source(b, value, shape, t.dtype)
    if not op:
        b.emit(ArrayScatter, [x, source, everywhere(b, shape), *index_operands])
        return
    added = source if op == "add" else b.tile(b.unary("neg", source))
    b.emit(ArrayScatterAtomic, [x, added, everywhere(b, shape), *index_operands], {"op": "add"})


def describe_mask(x: Operand) -> TypeRule:
    """The error for a read of the elements that a mask selects, whose number is not constant."""
    return TypeRule(
        f"{describe(x)} cannot be indexed by a mask: the number of elements would not be constant",
        "choose by a mask with tg.where(mask, x, t)",
    )
