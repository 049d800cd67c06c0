"""Accesses to the tiles of several blocks, one block per SIMD lane: pieces of rows are transposed in registers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

from tegula.codegen import tiles
from tegula.codegen.elements import array_pointer, needs_bounds, offsets, tile_in_bounds
from tegula.codegen.state import State
from tegula.codegen.storage import View, packed_strides
from tegula.codegen.text import register_type
from tegula.codegen.transposes import concatenated, starts_of_pieces, transposed_squares
from tegula.ir import Op
from tegula.ir.interfaces import LoopLike
from tegula.ops.blocks_in_lanes import TileAddress, TileLoadInLanes, TileStoreInLanes
from tegula.types import DType, element_bytes, scalar_of

PIECE_BYTES = 16
"""The bytes of a piece of a row. Vectors of several pieces are concatenated after loads and split before stores,
without a shuffle of elements."""
PREFETCH_LIMIT = 64 << 10
"""Tiles of a group of blocks with fewer bytes are prefetched. Larger tiles are computed much longer than they are
loaded, and the processor's own prefetches suffice."""
SECOND_CACHE = 2
"""The locality of prefetches into the second cache, which leave the first to the tiles that are computed."""


def tile_address(s: State, op: TileAddress) -> None:
    """Lower `tile.address`: whether the tile is in bounds and packed, its address, and the array's strides."""
    array, code = s.arrays[op.array], s.code
    is_fast = tile_in_bounds(s, op) if needs_bounds(s, op) else "true"
    size, last = element_bytes(array.dtype), len(op.shape) - 1
    packed = packed_strides(op.shape, size)
    for d in range(0 if op.packed else last, last + 1):
        if op.shape[d] > 1 and array.strides[d] != str(packed[d]):
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
    """Emit the loops over rows and over parts of rows. The same parts of the tiles of the next group of blocks are
    prefetched."""
    is_store = isinstance(op, TileStoreInLanes)
    *outer, columns, lanes = view.shape
    scalar, memory = scalar_of(view.dtype), s.memory
    addresses = tiles.materialise(s, op.addresses)
    width, depth = (
        min(lanes, s.target.vector_bytes * 8 // scalar.bits),
        s.target.vector_bytes * 8 // scalar.bits,
    )
    while depth > columns:
        depth //= 2
    if s.vectorised.is_access_rare:
        depth = min(depth, PIECE_BYTES * 8 // scalar.bits)
    strides = [s.i64(v) for v in op.strides]
    distance = _distance_to_next_group(s, op, view, addresses)
    for lane in range(0, lanes, width):
        row_addresses = [memory.load_view(addresses, [str(lane + k)], 1)[0] for k in range(width)]
        first = [s.code.emit(f"inttoptr i64 {x} to ptr") for x in row_addresses]
        for index, offset in _rows(s, outer, strides):
            rows = [memory.bytes_offset(p, offset) for p in first]
            for column in starts_of_pieces(s, columns, depth):
                row_starts = [memory.offset(p, column, scalar) for p in rows]
                if distance is not None:
                    _prefetch(s, [memory.bytes_offset(p, distance) for p in row_starts], is_store)
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


def _distance_to_next_group(
    s: State, op: TileLoadInLanes | TileStoreInLanes, view: View, addresses: View
) -> str | None:
    """The distance in bytes from the tiles of this group of blocks to the tiles of the next, if tiles follow each other
    at equal distances, as they do in batches; None if the tiles are not prefetched. Prefetches of other addresses do
    nothing, not even beyond the array."""
    *_, lanes = view.shape
    is_large = prod(view.shape) * element_bytes(view.dtype) >= PREFETCH_LIMIT
    if lanes < 2 or is_large or s.vectorised.is_access_rare or _is_in_loop(op):
        return None
    first, second = (s.memory.load_view(addresses, [str(k)], 1)[0] for k in range(2))
    return s.code.emit(f"mul i64 {s.code.emit(f'sub i64 {second}, {first}')}, {lanes}")


def _is_in_loop(op: Op) -> bool:
    """Whether a block runs the op more than once, so that the next group of blocks may be far away."""
    region = op.parent
    while region is not None and region.parent is not None:
        if isinstance(region.parent, LoopLike):
            return True
        region = region.parent.parent
    return False


def _prefetch(s: State, pointers: list[str], is_store: bool) -> None:
    for pointer in pointers:
        arguments = f"ptr {pointer}, i32 {int(is_store)}, i32 {SECOND_CACHE}, i32 1"
        s.code.call("prefetch", "p0", "void", arguments)


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
