"""Accesses to the tiles of several blocks, one block per SIMD lane: pieces of rows are transposed in registers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tegula.codegen import tiles
from tegula.codegen.elements import array_pointer, needs_bounds, offsets, tile_in_bounds
from tegula.codegen.state import State
from tegula.codegen.storage import View, packed_strides
from tegula.codegen.text import register_type
from tegula.codegen.transposes import concatenated, starts_of_pieces, transposed_squares
from tegula.ops.blocks_in_lanes import TileAddress, TileLoadInLanes, TileStoreInLanes
from tegula.types import DType, element_bytes, scalar_of

PIECE_BYTES = 16
"""The bytes of a piece of a row. Vectors of several pieces are concatenated after loads and split before stores,
without a shuffle of elements."""


def tile_address(s: State, op: TileAddress) -> None:
    """Lower `tile.address`: whether the tile is in bounds and packed, its address, and the array's strides."""
    array, code = s.arrays[op.array], s.code
    is_fast = tile_in_bounds(s, op) if needs_bounds(s, op) else "true"
    size, last = element_bytes(array.dtype), len(op.shape) - 1
    packed = packed_strides(op.shape, size)
    for d in range(0 if op.packed else last, last + 1):
        if op.shape[d] > 1 and not (d == last and array.contiguous):
            adjacent = code.emit(f"icmp eq i64 {array.strides[d]}, {packed[d]}")
            is_fast = code.emit(f"and i1 {is_fast}, {adjacent}")
    pointer = array_pointer(s, array, offsets(s, op))
    address = code.emit(f"ptrtoint ptr {pointer} to i64")
    for value, register in zip(op.results, (is_fast, address, *array.strides[:-1]), strict=True):
        s.scalars[value] = (register,)


def load_in_lanes(s: State, op: TileLoadInLanes) -> None:
    """Lower `tile.load_in_lanes`: load pieces of rows, transpose squares, store one vector of lanes per element."""
    result = s.result_memory(op.result, "lanes")

    def square(block: _Square) -> None:
        rows = [
            [s.memory.load(block.pointer(lane, k), block.scalar, block.piece) for k in range(block.pieces)]
            for lane in range(block.width)
        ]
        for k in range(block.pieces):
            vectors = [
                concatenated(s, block.scalar, [row[k] for row in rows[q :: block.piece]], block.piece)
                for q in range(block.piece)
            ]
            for e, vector in enumerate(transposed_squares(s, block.scalar, vectors, block.width)):
                s.memory.store(block.elements(result, k * block.piece + e), vector, block.scalar, block.width)

    _for_each_square(s, op, result, square)
    s.tiles[op.result] = result


def store_in_lanes(s: State, op: TileStoreInLanes) -> None:
    """Lower `tile.store_in_lanes`: the inverse of `load_in_lanes`."""
    source = tiles.materialise(s, op.tile)

    def square(block: _Square) -> None:
        columns: list[list[str]] = []
        for k in range(block.pieces):
            addresses = [block.elements(source, k * block.piece + e) for e in range(block.piece)]
            vectors = [s.memory.load(p, block.scalar, block.width) for p in addresses]
            columns.append(transposed_squares(s, block.scalar, vectors, block.width))
        t = register_type(block.scalar, 1)
        for lane in range(block.width):
            for k, vectors in enumerate(columns):
                first_row = lane // block.piece * block.piece
                x = vectors[lane % block.piece]
                part = s.memory.shuffled(
                    x, "poison", t, block.width, [*range(first_row, first_row + block.piece)]
                )
                s.memory.store(block.pointer(lane, k), part, block.scalar, block.piece)

    _for_each_square(s, op, source, square)


class _Square:
    """`pieces` x `piece` elements of a row of `width` tiles. `rows`: the addresses of the rows; `index`: the
    coordinates of the first element; `lane`: the first tile."""

    def __init__(
        self, s: State, scalar: DType, width: int, pieces: int, rows: list[str], index: list[str], lane: int
    ) -> None:
        self.s, self.scalar, self.width, self.pieces = s, scalar, width, pieces
        self.piece = PIECE_BYTES * 8 // scalar.bits
        self.rows, self.index, self.lane = rows, index, lane

    def pointer(self, lane: int, piece: int) -> str:
        """The address of a piece of a tile's row."""
        return self.s.memory.offset(self.rows[lane], str(piece * self.piece), self.scalar)

    def elements(self, view: View, k: int) -> str:
        """The address of element k of all tiles."""
        memory, (*rest, column) = self.s.memory, self.index
        return memory.at(view, [*rest, memory.add(column, str(k)), str(self.lane)])


def _for_each_square(
    s: State, op: TileLoadInLanes | TileStoreInLanes, view: View, square: Callable[[_Square], None]
) -> None:
    """Emit the loops over rows and over parts of rows."""
    *outer, columns, lanes = view.shape
    scalar, memory = scalar_of(view.dtype), s.memory
    addresses = tiles.materialise(s, op.addresses)
    width, depth = (
        min(lanes, s.target.vector_bytes * 8 // scalar.bits),
        s.target.vector_bytes * 8 // scalar.bits,
    )
    while depth > columns:
        depth //= 2
    strides = [s.i64(v) for v in op.strides]
    for lane in range(0, lanes, width):
        row_addresses = [memory.load_view(addresses, [str(lane + k)], 1)[0] for k in range(width)]
        first = [s.code.emit(f"inttoptr i64 {x} to ptr") for x in row_addresses]
        for index, offset in _rows(s, outer, strides):
            rows = [memory.bytes_offset(p, offset) for p in first]
            for column in starts_of_pieces(s, columns, depth):
                row_starts = [memory.offset(p, column, scalar) for p in rows]
                square(
                    _Square(
                        s,
                        scalar,
                        width,
                        depth * scalar.bits // 8 // PIECE_BYTES,
                        row_starts,
                        [*index, column],
                        lane,
                    )
                )


def _rows(s: State, outer: list[int], strides: list[str]) -> Iterator[tuple[list[str], str]]:
    """The coordinates of each row of a tile, and the row's distance from the first in bytes."""
    if not outer:
        yield [], "0"
        return
    n, *rest = outer
    with s.code.loop("0", str(n)) as loop:
        distance = s.memory.mul(loop.index, strides[0])
        for index, offset in _rows(s, rest, strides[1:]):
            yield [loop.index, *index], s.memory.add(distance, offset)


__all__ = ["load_in_lanes", "store_in_lanes", "tile_address"]
