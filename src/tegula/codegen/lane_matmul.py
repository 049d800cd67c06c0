"""Matmuls of one pair of matrices per SIMD lane. The accumulators of a block of the result are in registers."""

from __future__ import annotations

from collections.abc import Iterator

from tegula.codegen import tiles
from tegula.codegen.scalar import elementwise
from tegula.codegen.state import State
from tegula.codegen.storage import View
from tegula.codegen.text import constant, register_type
from tegula.ops import scalar as S
from tegula.ops.linear import TileMatmulInLanes
from tegula.ops.tile import is_zeros, tile_type
from tegula.types import scalar_of

AVX512_BYTES = 64
"""The size in bytes of a vector register of AVX-512, which has 32 vector registers; AVX2 has 16."""
COLUMNS = 4
"""The number of columns of a block."""


def matmul_in_lanes(s: State, op: TileMatmulInLanes) -> None:
    """Lower `tile.matmul_in_lanes`: loops over blocks of the result, and a loop over k for each block, in which the
    block's sums are in registers."""
    t = tile_type(op.result.type)
    m, n, lanes = t.shape
    views = [tiles.materialise(s, v) for v in ((op.a, op.b) if is_zeros(op.c) else (op.a, op.b, op.c))]
    result = s.result_memory(op.result, "matmul")
    width = min(lanes, s.target.vector_bytes * 8 // scalar_of(t.dtype).bits)
    for rows, i in _block_starts(s, m, 4 if s.target.vector_bytes == AVX512_BYTES else 2):
        for columns, j in _block_starts(s, n, COLUMNS):
            for lane in range(0, lanes, width):
                indices = [
                    (s.memory.add(i, str(r)), s.memory.add(j, str(c)))
                    for r in range(rows)
                    for c in range(columns)
                ]
                sums = _sums(s, views, indices, str(lane), width)
                for (row, column), x in zip(indices, sums, strict=True):
                    s.memory.store_view(result, [row, column, str(lane)], (x,), width)
    s.tiles[op.result] = result


def _block_starts(s: State, n: int, size: int) -> Iterator[tuple[int, str]]:
    """The size and the start of the blocks that cover 0 .. n-1: a loop over full blocks, then the remainder."""
    full = n // size * size
    if full > size:
        with s.code.loop("0", str(full), str(size)) as loop:
            yield size, loop.index
    elif full:
        yield size, "0"
    if full < n:
        yield n - full, str(full)


def _sums(s: State, views: list[View], indices: list[tuple[str, str]], lane: str, width: int) -> list[str]:
    """The elements of a block of the result. `views`: the operands, followed by the addend unless it is 0; `indices`:
    the row and the column of each element."""
    a, b, *addend = views
    scalar, memory = scalar_of(a.dtype), s.memory
    zero, t = constant(scalar, 0, width), register_type(scalar, width)
    first = [memory.load_view(addend[0], [*p, lane], width)[0] if addend else zero for p in indices]
    with s.code.loop("0", str(a.shape[1]), carried=[(t, x) for x in first]) as loop:
        k = loop.index
        rows = {r: memory.load_view(a, [r, k, lane], width)[0] for r, _ in indices}
        columns = {c: memory.load_view(b, [k, c, lane], width)[0] for _, c in indices}
        for (r, c), total in zip(indices, loop.values, strict=True):
            x, y = rows[r], columns[c]
            if scalar.is_float:
                updated = elementwise(s.code, S.Fma([], []), scalar, [x, y, total], width)
            else:
                term = elementwise(s.code, S.Mul([], []), scalar, [x, y], width)
                updated = elementwise(s.code, S.Add([], []), scalar, [total, term], width)
            loop.next.append(updated)
    return loop.results


__all__ = ["matmul_in_lanes"]
