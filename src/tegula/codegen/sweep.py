"""Loops over the elements of a tile."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence, Set
from itertools import product

from tegula.codegen.elements import is_vectorised, needs_bounds, tile_in_bounds
from tegula.codegen.state import State
from tegula.codegen.storage import View
from tegula.ir import Op, Value
from tegula.ops.tile import TileBroadcast, TileEmpty, TileFull, TileGather, TileLoad, TileMap, TileStore
from tegula.types import ElementType, TileType, components, scalar_of

MAX_UNROLLED = 16
MAX_INTERLEAVED = 4
"""Elements of at most this many components are deinterleaved in registers; larger ones are gathered."""
LOOP_LENGTH, TYPICAL_LENGTH = 56, 12
"""The number of instructions that take LLVM as long as a loop does, and those of a typical body of a loop."""

Body = Callable[[list[str], int], None]
"""Emits the code for several adjacent elements, given the index of the first element and the number of elements."""


def tree(s: State, value: Value) -> Iterator[Value]:
    """The expression tree of a tile: the tile, the tiles that are evaluated inline, and the materialised tiles as
    leaves."""
    yield value
    op = fused(s, value)
    if op is not None:
        for operand in op.operands:
            if isinstance(operand.type, TileType):
                yield from tree(s, operand)


def fused(s: State, value: Value) -> Op | None:
    """The op of a tile that is computed inside its consumer; None for a tile in memory."""
    return None if value in s.tiles else s.inline.get(value)


def length_of(s: State, value: Value) -> int:
    """The approximate number of instructions that compute and store a vector of a tile's elements."""
    length = 2
    for v in tree(s, value):
        op = fused(s, v)
        length += len(op.function.ops) - 1 if isinstance(op, TileMap) else 2
    return length


def width_for(
    s: State, values: list[Value], shape: tuple[int, ...], extra: tuple[ElementType, ...] = ()
) -> int:
    """The SIMD width of a loop over elements: the number of elements of the widest type that fit a vector register,
    or 1 if the code cannot be vectorised. `extra`: further element types of the loop."""
    widest = 1
    for value in values:
        for v in tree(s, value):
            op = fused(s, v)
            if components(v.type.dtype) > MAX_INTERLEAVED:  # type: ignore[union-attr]
                return 1
            if isinstance(op, TileGather) or (isinstance(op, TileMap) and not is_vectorised(s, op)):
                return 1
            widest = max(widest, scalar_of(v.type.dtype).bits // 8, _compute_bytes(op))  # type: ignore[union-attr]
    for t in extra:
        if components(t) > MAX_INTERLEAVED:
            return 1
        widest = max(widest, scalar_of(t).bits // 8)
    width = max(1, s.target.vector_bytes // widest)
    while width > shape[-1]:
        width //= 2
    return max(1, width)


def _compute_bytes(op: Op | None) -> int:
    """The size in bytes of the widest scalar that a map computes with."""
    if not isinstance(op, TileMap):
        return 1
    types = [r.type for inner in op.walk() for r in inner.results if not isinstance(r.type, TileType)]
    if any(components(t) > MAX_INTERLEAVED for t in types):  # type: ignore[arg-type]
        return 64
    small = any(scalar_of(t).is_float and scalar_of(t).bits < 32 for t in types)  # type: ignore[arg-type]
    return max([4 if small else 1, *(scalar_of(t).bits // 8 for t in types)])  # type: ignore[arg-type]


def sweep(
    s: State,
    shape: tuple[int, ...],
    width: int,
    body: Body,
    rare: bool = False,
    merged: Set[int] = frozenset(),
    length: int = TYPICAL_LENGTH,
) -> None:
    """Emit `body(index, width)` for all elements in row-major order, in loops, or unrolled if the elements are few.
    `rare`: whether the code runs rarely, and is not unrolled; `merged`: the dimensions that share a loop with the next
    one (`merged_dimensions`), in which the coordinate of the first is 0 and the coordinate of the next exceeds its
    extent; `length`: the approximate number of instructions of the body."""
    full, remainder = _pieces(shape[-1], width)
    max_unrolled = MAX_UNROLLED if s.vectorised.kernel is not s.kernel else MAX_UNROLLED // 2
    copies = math.prod(shape[:-1]) * (full + len(remainder))
    is_shorter_rolled = s.is_rare and (copies - 1) * length > LOOP_LENGTH
    is_unrolled = copies <= max_unrolled and not rare and not is_shorter_rolled
    max_straight = 1 if rare else 8
    if is_unrolled:
        for coordinates in product(*map(range, shape[:-1])):
            _row(s, [str(k) for k in coordinates], full, remainder, width, body, max_straight)
        return
    _outer(s, shape, [], merged, lambda index: _row(s, index, full, remainder, width, body, max_straight))


def sweep_slice(
    s: State,
    shape: tuple[int, ...],
    width: int,
    body: Body,
    rare: bool,
    merged: Set[int],
    dim: int,
    at: str,
    length: int,
) -> None:
    """A sweep over a tile, or over the elements with coordinate `at` in dimension `dim` if this is not -1."""
    if dim < 0:
        sweep(s, shape, width, body, rare, merged=merged, length=length)
        return
    rest = tuple(1 if d == dim else n for d, n in enumerate(shape))
    sweep(s, rest, width, lambda i, w: body([*i[:dim], at, *i[dim + 1 :]], w), rare)


def _outer(
    s: State, shape: tuple[int, ...], index: list[str], merged: Set[int], row: Callable[[list[str]], None]
) -> None:
    first = last = len(index)
    if first == len(shape) - 1:
        row(index)
        return
    while last in merged:
        last += 1
    trips = math.prod(shape[first : last + 1])
    zeros = ["0"] * (last - first)
    if trips == 1:
        _outer(s, shape, [*index, *zeros, "0"], merged, row)
        return
    with s.code.loop("0", str(trips)) as loop:
        _outer(s, shape, [*index, *zeros, loop.index], merged, row)


def merged_dimensions(s: State, value: Value, view: View) -> set[int]:
    """The dimensions of a tile that share a loop with the next one when the tile is computed into a view: in all memory
    that is read and written, the elements at the end of the next dimension are followed by those at its start."""
    strides_of_leaves = _strides(s, value, view.shape)
    if strides_of_leaves is None or type(view) is not View:
        return set()
    return _merged(view.shape, [*strides_of_leaves, view.strides])


def merged_views(source: View, target: View) -> set[int]:
    """The dimensions that share a loop with the next one when a view is copied to another of its shape."""
    if type(source) is not View or type(target) is not View:
        return set()
    return _merged(target.shape, [source.strides, target.strides])


def _merged(shape: tuple[int, ...], strides_of_views: Sequence[tuple[int, ...]]) -> set[int]:
    return {
        d
        for d in range(len(shape) - 2)
        if all(strides[d] == strides[d + 1] * shape[d + 1] for strides in strides_of_views)
    }


def _strides(s: State, value: Value, shape: tuple[int, ...]) -> list[tuple[int, ...]] | None:
    """The strides of all memory from which a tile of a shape is computed, 0 where elements are repeated; None if
    coordinates have other uses than addresses."""
    view, op = s.tiles.get(value), fused(s, value)
    if type(view) is View:
        absent = len(shape) - len(view.shape)
        repeats = [n == 1 and m > 1 for n, m in zip(view.shape, shape[absent:], strict=True)]
        strides = (0 if r else stride for r, stride in zip(repeats, view.strides, strict=True))
        return [(*(0,) * absent, *strides)]
    if isinstance(op, (TileFull, TileEmpty)):
        return []
    if not isinstance(op, (TileMap, TileBroadcast)):
        return None
    result: list[tuple[int, ...]] = []
    for operand in op.operands:
        if isinstance(operand.type, TileType):
            strides_of_operand = _strides(s, operand, shape)
            if strides_of_operand is None:
                return None
            result += strides_of_operand
    return result


def _pieces(n: int, width: int) -> tuple[int, list[tuple[int, int]]]:
    """The number of full vectors that cover 0 .. n-1, and (start, width) of the narrower vectors for the
    remaining elements."""
    full = n // width
    start, remainder = full * width, list[tuple[int, int]]()
    while start < n:
        while width > n - start:
            width //= 2
        remainder.append((start, width))
        start += width
    return full, remainder


def _row(
    s: State,
    index: list[str],
    full: int,
    remainder: list[tuple[int, int]],
    width: int,
    body: Body,
    max_straight: int,
) -> None:
    if full > max_straight:
        steps = (max_straight, 4, 2) if width == 1 and s.vectorised.kernel is s.kernel else (2,)
        step = next((k for k in steps if full % k == 0 and max_straight > 1), 1)
        with s.code.loop("0", str(full * width), str(width * step)) as loop:
            for k in range(step):
                body([*index, s.memory.add(loop.index, str(k * width))], width)
    else:
        remainder = [*((k * width, width) for k in range(full)), *remainder]
    for start, w in remainder:
        body([*index, str(start)], w)


def guarded(
    s: State, values: list[Value], accesses: Sequence[TileLoad | TileStore], emit: Callable[[bool], None]
) -> None:
    """Emit a consumer in two versions: without bounds checks if all accessed tiles are in bounds, else with bounds
    checks. A consumer that runs only at edges has the second version alone. `accesses`: the accesses of the consumer
    itself."""
    checked = [op for op in accesses if needs_bounds(s, op)]
    for value in values:
        for v in tree(s, value):
            op = fused(s, v)
            if isinstance(op, TileLoad) and needs_bounds(s, op):
                checked.append(op)
    if not checked:
        emit(False)
        return
    if all(_is_at_edge(s, op) for op in checked):
        emit(True)
        return
    code = s.code
    in_bounds = tile_in_bounds(s, checked[0])
    for op in checked[1:]:
        in_bounds = code.emit(f"and i1 {in_bounds}, {tile_in_bounds(s, op)}")
    fast, slow, done = code.label("inside"), code.label("edge"), code.label("joined")
    code.branch(in_bounds, fast, slow)
    code.define_label(fast)
    emit(False)
    code.jump(done)
    code.define_label(slow)
    emit(True)
    code.jump(done)
    code.define_label(done)


def _is_at_edge(s: State, op: TileLoad | TileStore) -> bool:
    """Whether an access runs only if it or the same access of another block is out of bounds. Rows that do not fill a
    vector register must also follow each other, and elements of rows too, unless that is known."""
    t = (op.tile if isinstance(op, TileStore) else op.result).type
    assert isinstance(t, TileType)
    fills_register = t.shape[-1] * scalar_of(t.dtype).bits >= s.target.vector_bytes * 8
    return op in s.vectorised.edge_accesses and fills_register and s.arrays[op.array].contiguous
