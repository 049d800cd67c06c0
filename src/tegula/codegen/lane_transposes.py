"""Accesses to the tiles of several blocks, one block per SIMD lane: pieces of rows are transposed in registers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tegula.codegen import tiles
from tegula.codegen.elements import array_pointer, needs_bounds, offsets, tile_in_bounds
from tegula.codegen.state import State
from tegula.codegen.storage import View, packed_strides
from tegula.codegen.text import register_type
from tegula.codegen.transposes import joined, starts_of_pieces, transposed_squares
from tegula.ops.blocks_in_lanes import TileAddress, TileLoadInLanes, TileStoreInLanes
from tegula.types import DType, element_bytes, scalar_of

PIECE = 16
"""The bytes of a piece of a row. Vectors of several pieces are concatenated after loads and split before stores,
without a shuffle of elements."""


def tile_address(s: State, op: TileAddress) -> None:
    """Lower `tile.address`."""
    array, code = s.arrays[op.array], s.code
    good = tile_in_bounds(s, op) if needs_bounds(s, op) else "true"
    size, last = element_bytes(array.dtype), len(op.shape) - 1
    packed = packed_strides(op.shape, size)
    for d in range(0 if op.packed else last, last + 1):
        if op.shape[d] > 1 and not (d == last and array.contiguous):
            adjacent = code.emit(f"icmp eq i64 {array.strides[d]}, {packed[d]}")
            good = code.emit(f"and i1 {good}, {adjacent}")
    pointer = array_pointer(s, array, offsets(s, op))
    address = code.emit(f"ptrtoint ptr {pointer} to i64")
    for value, register in zip(op.results, (good, address, *array.strides[:-1]), strict=True):
        s.scalars[value] = (register,)


def load_in_lanes(s: State, op: TileLoadInLanes) -> None:
    """Lower `tile.load_in_lanes`."""
    into = s.result_memory(op.result, "lanes")

    def square(at: _Square) -> None:
        rows = [
            [s.memory.load(at.pointer(lane, k), at.scalar, at.piece) for k in range(at.pieces)]
            for lane in range(at.width)
        ]
        for k in range(at.pieces):
            vectors = [
                joined(s, at.scalar, [row[k] for row in rows[q :: at.piece]], at.piece)
                for q in range(at.piece)
            ]
            for e, vector in enumerate(transposed_squares(s, at.scalar, vectors, at.width)):
                s.memory.store(at.elements(into, k * at.piece + e), vector, at.scalar, at.width)

    _squares(s, op, into, square)
    s.tiles[op.result] = into


def store_in_lanes(s: State, op: TileStoreInLanes) -> None:
    """Lower `tile.store_in_lanes`."""
    source = tiles.materialise(s, op.tile)

    def square(at: _Square) -> None:
        columns: list[list[str]] = []
        for k in range(at.pieces):
            addresses = [at.elements(source, k * at.piece + e) for e in range(at.piece)]
            vectors = [s.memory.load(p, at.scalar, at.width) for p in addresses]
            columns.append(transposed_squares(s, at.scalar, vectors, at.width))
        t = register_type(at.scalar, 1)
        for lane in range(at.width):
            for k, vectors in enumerate(columns):
                first = lane // at.piece * at.piece
                x = vectors[lane % at.piece]
                part = s.memory.shuffled(x, "poison", t, at.width, [*range(first, first + at.piece)])
                s.memory.store(at.pointer(lane, k), part, at.scalar, at.piece)

    _squares(s, op, source, square)


class _Square:
    """`pieces` x `piece` elements of a row of `width` tiles. `rows`: the addresses of the rows; `index`: the
    coordinates of the first element; `lane`: the first tile."""

    def __init__(
        self, s: State, scalar: DType, width: int, pieces: int, rows: list[str], index: list[str], lane: int
    ) -> None:
        self.s, self.scalar, self.width, self.pieces = s, scalar, width, pieces
        self.piece = PIECE * 8 // scalar.bits
        self.rows, self.index, self.lane = rows, index, lane

    def pointer(self, lane: int, piece: int) -> str:
        """The address of a piece of a tile's row."""
        return self.s.memory.offset(self.rows[lane], str(piece * self.piece), self.scalar)

    def elements(self, view: View, k: int) -> str:
        """The address of element k of all tiles."""
        memory, (*rest, column) = self.s.memory, self.index
        return memory.at(view, [*rest, memory.add(column, str(k)), str(self.lane)])


def _squares(
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
                at = [memory.offset(p, column, scalar) for p in rows]
                square(
                    _Square(s, scalar, width, depth * scalar.bits // 8 // PIECE, at, [*index, column], lane)
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
