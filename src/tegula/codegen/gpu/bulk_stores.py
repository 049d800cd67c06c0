"""Stores of warp groups' results to arrays, piece by piece through staging buffers in shared memory and bulk copies of
whole rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from tegula.codegen.gpu.control import emit_if
from tegula.codegen.gpu.maps import BITS
from tegula.codegen.gpu.schedule import (
    as_promised,
    asm,
    elected,
    fence_async,
    shared_address,
    start_store,
    tensor_map,
    wait_for_copies,
)
from tegula.codegen.gpu.state import GpuState
from tegula.codegen.scalar import Components
from tegula.codegen.storage import SwizzledView
from tegula.codegen.text import memory_type, vector_of
from tegula.deferred import deferred_imports
from tegula.ir import Value
from tegula.layout import wgmma_group_tile
from tegula.ops.roles import WARP, WARP_GROUP
from tegula.ops.schedule import BulkStore
from tegula.passes.name_barriers import GROUP_BARRIERS
from tegula.types import ArrayType, BufType, DType, TileType, element_bytes, scalar_of

with deferred_imports():
    from tegula.passes.bulk_access import box_of_rows

TRANSPOSED_COLUMNS = 64
"""The number of columns per wgmma of a warp group, a quarter per warp, if the matmul is computed as its transpose."""


def bulk_store(s: GpuState, op: BulkStore) -> None:
    """Lower `bulk.store`: each warp group stores its rows and columns piece by piece, alternating between its staging
    buffers."""
    staging, array, tile, *indices = op.operands
    t, piece, view = tile.type, staging.type, s.buffers[staging]
    assert isinstance(t, TileType) and isinstance(piece, BufType) and isinstance(array.type, ArrayType)
    copies, rows, columns = piece.shape
    groups = s.group.warp_groups
    copies //= groups
    writer = (_TransposedPieces if op.transposed else _Pieces)(s, staging, tile)
    code = s.code
    warp_group = s.warp_group
    group_rows, group_columns = writer.group_tile
    first_row = code.emit(f"mul i32 {s.first(f'udiv i32 {warp_group}, {writer.across}')}, {group_rows}")
    first_column = code.emit(f"mul i32 {s.first(f'urem i32 {warp_group}, {writer.across}')}, {group_columns}")
    first = [s.scalar(v) for v in indices[:-1]]
    column_offset = code.emit(f"add i32 {as_promised(s, op, array, s.scalar(indices[-1]))}, {first_column}")
    adds = bool(op.adds)
    elements = scalar_of(t.dtype).name if adds else BITS
    box = box_of_rows(t.shape, (rows, columns))
    assert box is not None and isinstance(view, SwizzledView)
    map_address = tensor_map(s, array, box, view.row_bytes, elements)
    # Copies of earlier stores to the same elements may be in flight.
    wait_for_copies(s, 0, read=False)
    _sync(s, warp_group)
    for k, (i, j) in enumerate(
        (i, j) for i in range(group_rows // rows) for j in range(group_columns // columns)
    ):
        if k >= copies:
            wait_for_copies(s, copies - 1, read=True)
            _sync(s, warp_group)
        slot = code.emit(f"add i32 {code.emit(f'mul i32 {warp_group}, {copies}')}, {k % copies}")
        slot64 = code.emit(f"zext nneg i32 {slot} to i64")
        writer.write(slot64, i, j)
        fence_async(s, op)
        _sync(s, warp_group)
        source = shared_address(s, s.memory.at(view, [slot64, "0", "0"]))
        row = code.emit(f"add i32 {first_row}, {rows * i}")
        coordinates = [
            *_row_coordinates(s, t.shape, first, row),
            code.emit(f"add i32 {column_offset}, {columns * j}"),
        ]
        single_thread = code.emit(
            f"and i1 {elected(s, False)}, {code.emit(f'icmp ult i32 {_thread_in_warp_group(s)}, {WARP}')}"
        )

        def start(source: str = source, coordinates_of_row: list[str] = coordinates) -> None:
            start_store(s, array, map_address, source, coordinates_of_row, adds)
            asm(s, "cp.async.bulk.commit_group;", [])

        emit_if(s, single_thread, start)


def _row_coordinates(s: GpuState, shape: tuple[int, ...], first: list[str], row: str) -> list[str]:
    """The coordinates in the array of a row of a tile at `first`, without the last dimension."""
    code, coordinates = s.code, list(first)
    for d in range(len(first)):
        index = row
        if d < len(first) - 1:
            index = code.emit(f"udiv i32 {index}, {prod(shape[d + 1 : -1])}")
        if d > 0:
            index = code.emit(f"urem i32 {index}, {shape[d]}")
        coordinates[d] = code.emit(f"add i32 {first[d]}, {index}")
    return coordinates


def _thread_in_warp_group(s: GpuState) -> str:
    """The index of the thread in its warp group."""
    return s.first(f"and i32 {s.lane32}, {WARP_GROUP - 1}")


def _sync(s: GpuState, number: str) -> None:
    """Synchronise the threads of a warp group by its named barrier."""
    first = GROUP_BARRIERS + s.group.first // 4
    barrier = s.code.emit(f"add i32 {number}, {first}")
    s.code.line(f"call void @llvm.nvvm.barrier.cta.sync.aligned.count(i32 {barrier}, i32 {WARP_GROUP})")


class _Pieces:
    """The pieces in which warp groups store a result. `group_tile`: the rows and columns of a warp group; `across`: the
    number of warp groups along the columns."""

    def __init__(self, s: GpuState, staging: Value, tile: Value) -> None:
        t, piece = tile.type, staging.type
        assert isinstance(t, TileType) and isinstance(piece, BufType)
        tile_rows, columns = t.rows.shape
        _, self.across, mmas_m, mmas_n = wgmma_group_tile((tile_rows, columns), s.group.warp_groups)
        self.s, self.staging, self.group_tile, self.per = (
            s,
            staging,
            (64 * mmas_m, 8 * mmas_n),
            piece.shape[2] // 8,
        )
        registers = s.held[tile]
        self.pairs = _pack_pairs(s, scalar_of(t.dtype), zip(registers[::2], registers[1::2], strict=True))

    def write(self, slot: str, i: int, j: int) -> None:
        first = 2 * (j * self.per + self.group_tile[1] // 8 * i)
        _write_piece(self.s, self.staging, slot, self.pairs[first : first + 2 * self.per])


def _write_piece(s: GpuState, staging: Value, slot: str, pairs: Sequence[str]) -> None:
    """Store a warp group's registers of one piece to its staging slot. A thread holds two pairs for each 8 columns,
    eight rows apart."""
    view = s.buffers[staging]
    dtype = scalar_of(view.dtype)
    if dtype.bits == 16:
        _store_matrices(s, staging, slot, pairs)
        return
    warp_row = s.first(f"mul i32 {s.first(f'udiv i32 {_thread_in_warp_group(s)}, {WARP}')}, 16")
    lane = s.first(f"and i32 {s.lane32}, {WARP - 1}")
    row = s.first_wide(f"add i32 {warp_row}, {s.first(f'lshr i32 {lane}, 2')}")
    column = s.first_wide(f"shl i32 {s.first(f'and i32 {lane}, 3')}, 1")
    t = vector_of(memory_type(dtype), 2)
    for k, pair in enumerate(pairs):
        index = [slot, s.memory.add(row, str(k % 2 * 8)), s.memory.add(column, str(k // 2 * 8))]
        s.code.line(
            f"store {t} {pair}, ptr {s.memory.at(view, index)}, align {2 * element_bytes(view.dtype)}"
        )


def _store_matrices(s: GpuState, staging: Value, slot: str, pairs: Sequence[str]) -> None:
    """Store a piece by stmatrix: lane l provides the address of row l mod 16, and lanes from 16 on of the next 8
    columns.

    Addresses are recomputed at each store, because LLVM would hoist them out of the enclosing loops into registers that
    the matmuls need."""
    view, code = s.buffers[staging], s.code
    t = vector_of(memory_type(scalar_of(view.dtype)), 2)
    lane_address = code.emit(
        f'call i32 asm sideeffect "mov.b32 $0, $1;", "=r,r"(i32 {_thread_in_warp_group(s)})'
    )
    warp_row = code.emit(f"shl i32 {code.emit(f'lshr i32 {lane_address}, 5')}, 4")
    lane_row = code.emit(f"or disjoint i32 {warp_row}, {code.emit(f'and i32 {lane_address}, 15')}")
    lane_column = code.emit(f"lshr i32 {code.emit(f'and i32 {lane_address}, 16')}, 1")
    row, column = (code.emit(f"zext nneg i32 {x} to i64") for x in (lane_row, lane_column))
    for k in range(0, len(pairs), 4):
        packed = [code.emit(f"bitcast {t} {pair} to i32") for pair in pairs[k : k + 4]]
        address = shared_address(s, s.memory.at(view, [slot, row, s.memory.add(column, str(k // 4 * 16))]))
        text = "stmatrix.sync.aligned.m8n8.x4.shared::cta.b16 [$0], {$1, $2, $3, $4};"
        asm(s, text, [("r", "i32", address), *(("r", "i32", x) for x in packed)])


class _TransposedPieces:
    """The pieces of a matmul that is computed as its transpose: all warp groups are along the columns, and a thread
    holds pairs of columns."""

    def __init__(self, s: GpuState, staging: Value, tile: Value) -> None:
        t, piece = tile.type, staging.type
        assert isinstance(t, TileType) and isinstance(piece, BufType)
        self.across = s.group.warp_groups
        tile_rows, columns = t.rows.shape
        self.s, self.view, self.group_tile = s, s.buffers[staging], (tile_rows, columns // self.across)
        _, self.rows, self.columns = piece.shape
        registers = s.held[tile]
        quadruples = (registers[k : k + 4] for k in range(0, len(registers), 4))
        columns = (pair for a, b, c, d in quadruples for pair in ((a, c), (b, d)))
        self.pairs = _pack_pairs(s, scalar_of(t.dtype), columns)

    def write(self, slot: str, i: int, j: int) -> None:
        s = self.s
        half, first = divmod(self.columns * j, TRANSPOSED_COLUMNS)
        if self.columns == TRANSPOSED_COLUMNS:
            self._write(slot, i, half, first)
            return
        warp = s.first(f"udiv i32 {_thread_in_warp_group(s)}, {WARP}")
        part = s.first(f"lshr i32 {warp}, 1")
        is_own_part = s.code.emit(f"icmp eq i32 {part}, {first // self.columns}")
        emit_if(s, is_own_part, lambda: self._write(slot, i, half, first))

    def _write(self, slot: str, i: int, half: int, first: int) -> None:
        """Store two pairs for each 8 rows. `first`: the first column of the piece, relative to the half."""
        s, dtype = self.s, scalar_of(self.view.dtype)
        t, align = vector_of(memory_type(dtype), 2), 2 * element_bytes(dtype)
        warp_column = s.first(f"mul i32 {s.first(f'udiv i32 {_thread_in_warp_group(s)}, {WARP}')}, 16")
        lane = s.first(f"and i32 {s.lane32}, {WARP - 1}")
        pair = s.first(f"shl i32 {s.first(f'lshr i32 {lane}, 2')}, 1")
        column = s.memory.add(s.first_wide(f"add i32 {warp_column}, {pair}"), str(-first))
        row = s.first_wide(f"shl i32 {s.first(f'and i32 {lane}, 3')}, 1")
        count = self.rows // 8 * 2
        start = self.group_tile[0] // 8 * 2 * half + count * i
        for k, pair in enumerate(self.pairs[start : start + count]):
            index = [slot, s.memory.add(row, str(k // 2 * 8 + k % 2)), column]
            s.code.line(f"store {t} {pair}, ptr {s.memory.at(self.view, index)}, align {align}")


def _pack_pairs(s: GpuState, dtype: DType, registers: Iterable[tuple[Components, Components]]) -> list[str]:
    """Adjacent values as vectors of two. Emitted before the branch, so that LLVM fuses rounding and packing of two
    values into one instruction."""
    code, scalar_type = s.code, memory_type(dtype)
    words: list[str] = []
    for (a,), (b,) in registers:
        pair = code.emit(f"insertelement <2 x {scalar_type}> poison, {scalar_type} {a}, i32 0")
        words.append(code.emit(f"insertelement <2 x {scalar_type}> {pair}, {scalar_type} {b}, i32 1"))
    return words
