"""Loops over the elements of a tile."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from tegula.codegen.elements import is_vectorised, needs_bounds, tile_in_bounds
from tegula.codegen.lane_address import INTERLEAVED
from tegula.codegen.state import State
from tegula.ir import Op, Value
from tegula.ops.tile import TileLoad, TileMap, TileStore
from tegula.types import ElementType, TileType, components, scalar_of

UNROLLED = 16
Body = Callable[[list[str], int], None]


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


def width_for(
    s: State, values: list[Value], shape: tuple[int, ...], extra: tuple[ElementType, ...] = ()
) -> int:
    """The number of elements to compute at once: as many of the widest type as fit a vector register, or 1 if the code
    cannot be vectorised."""
    widest = 1
    for value in values:
        for v in tree(s, value):
            op = fused(s, v)
            if components(v.type.dtype) > INTERLEAVED:  # type: ignore[union-attr]
                return 1
            if isinstance(op, TileMap) and not is_vectorised(s, op):
                return 1
            widest = max(widest, scalar_of(v.type.dtype).bits // 8, _compute_bytes(op))  # type: ignore[union-attr]
    for t in extra:
        if components(t) > INTERLEAVED:
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
    if any(components(t) > INTERLEAVED for t in types):  # type: ignore[arg-type]
        return 64
    small = any(scalar_of(t).is_float and scalar_of(t).bits < 32 for t in types)  # type: ignore[arg-type]
    return max([4 if small else 1, *(scalar_of(t).bits // 8 for t in types)])  # type: ignore[arg-type]


def sweep(s: State, shape: tuple[int, ...], width: int, body: Body, rare: bool = False) -> None:
    """Call `body(index, width)` for all elements in row-major order, in loops, or unrolled for few elements unless the
    code is `rare`."""
    full, rest = _pieces(shape[-1], width)
    max_unrolled = UNROLLED if s.side_by_side.kernel is not s.kernel else UNROLLED // 2
    static = math.prod(shape[:-1]) * (full + len(rest)) <= max_unrolled and not rare
    few = 1 if rare else 8
    _outer(s, shape, [], static, lambda index: _row(s, index, full, rest, width, body, few))


def _outer(
    s: State, shape: tuple[int, ...], index: list[str], static: bool, row: Callable[[list[str]], None]
) -> None:
    if len(index) == len(shape) - 1:
        row(index)
    elif static or shape[len(index)] == 1:
        for k in range(shape[len(index)]):
            _outer(s, shape, [*index, str(k)], static, row)
    else:
        with s.code.loop("0", str(shape[len(index)])) as loop:
            _outer(s, shape, [*index, loop.index], static, row)


def _pieces(n: int, width: int) -> tuple[int, list[tuple[int, int]]]:
    """The number of full vectors that cover 0 .. n-1, and (start, width) of ever narrower vectors for the remaining
    elements."""
    full = n // width
    at, rest = full * width, list[tuple[int, int]]()
    while at < n:
        while width > n - at:
            width //= 2
        rest.append((at, width))
        at += width
    return full, rest


def _row(
    s: State, index: list[str], full: int, rest: list[tuple[int, int]], width: int, body: Body, few: int
) -> None:
    if full > few:
        step = 2 if full % 2 == 0 and few > 1 else 1
        with s.code.loop("0", str(full * width), str(width * step)) as loop:
            for k in range(step):
                body([*index, s.memory.add(loop.index, str(k * width))], width)
    else:
        rest = [*((k * width, width) for k in range(full)), *rest]
    for at, w in rest:
        body([*index, str(at)], w)


def guarded(
    s: State, values: list[Value], own: Sequence[TileLoad | TileStore], emit: Callable[[bool], None]
) -> None:
    """Emit a consumer in two versions: without bounds checks if all accessed tiles are in bounds, else with bounds
    checks. `own`: the accesses of the consumer itself."""
    checked = [op for op in own if needs_bounds(s, op)]
    for value in values:
        for v in tree(s, value):
            op = fused(s, v)
            if isinstance(op, TileLoad) and needs_bounds(s, op):
                checked.append(op)
    if not checked:
        emit(False)
        return
    code = s.code
    ok = tile_in_bounds(s, checked[0])
    for op in checked[1:]:
        ok = code.emit(f"and i1 {ok}, {tile_in_bounds(s, op)}")
    fast, slow, done = code.label("inside"), code.label("edge"), code.label("joined")
    code.branch(ok, fast, slow)
    code.define_label(fast)
    emit(False)
    code.jump(done)
    code.define_label(slow)
    emit(True)
    code.jump(done)
    code.define_label(done)
