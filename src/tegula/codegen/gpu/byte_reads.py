"""Loads of byte tiles from shared memory to MMA fragments, whose layouts have at most two adjacent elements per
register: by ldmatrix, or two bytes at a time."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.codegen.gpu.state import GpuState, Registers
from tegula.codegen.scalar import Components
from tegula.codegen.storage import SwizzledView, View
from tegula.layout import Layout, wgmma_transposed
from tegula.ops.roles import WARP
from tegula.types import components, element_bytes, scalar_of

ROWS, COLUMNS, HALF = 32, 16, 64
"""The rows and columns per ldmatrix of a warp, and the columns per wgmma of a warp group."""


def reads_matrices(s: GpuState, view: View, layout: Layout) -> bool:
    """Whether `matrices` can read a tile: bytes that are contiguous along rows, for a matmul that is computed as its
    transpose."""
    groups = s.group.warp_groups
    if not groups or not _has_byte_elements(view) or not view.contiguous:
        return False
    rows, columns = view.shape
    has_aligned_rows = isinstance(view, SwizzledView) or view.strides[0] % COLUMNS == 0
    fits = rows % ROWS == 0 and columns % (HALF * groups) == 0
    return has_aligned_rows and fits and layout == wgmma_transposed((rows, columns), groups)


def reads_pairs(view: View, layout: Layout) -> bool:
    """Whether `pairs` can read a tile: bytes in a layout with two pairs of adjacent elements per register."""
    if not _has_byte_elements(view) or any(layout.padded(d) for d in (0, 1)) or layout.register_count % 4:
        return False
    first = layout.registers[0]
    return (first.size, first.stride) == (2, 1) and _is_contiguous_along(view, first.dim)


def _has_byte_elements(view: View) -> bool:
    t = view.dtype
    return len(view.shape) == 2 and components(t) == element_bytes(t) == 1 and not scalar_of(t).is_bool


def _is_contiguous_along(view: View, dim: int) -> bool:
    """Whether a dimension is contiguous, in rows of an even number of bytes."""
    if isinstance(view, SwizzledView):
        return view.dims[dim] == 2 and view.steps[dim] == 1
    return view.strides[dim] == 1 and view.strides[1 - dim] % 2 == 0


def matrices(s: GpuState, view: View) -> Registers:
    """Read a tile by ldmatrix with two bytes as one element: each lane provides the address of one of 32 rows of 16
    columns, and receives two adjacent bytes from each of two consecutive rows, every eight rows."""
    code, (rows, columns) = s.code, view.shape
    mmas_m = columns // (HALF * s.group.warp_groups)
    row, column = s.first_wide(f"and i32 {s.lane32}, {WARP - 1}"), _first_column(s, mmas_m)
    registers = list[Components]()
    t, name = "{ i32, i32, i32, i32 }", "@llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.trans.b16.p3"
    for i in range(mmas_m):
        for k in range(0, rows, ROWS):
            address = s.memory.at(view, [s.memory.add(row, str(k)), s.memory.add(column, str(HALF * i))])
            pointer = code.emit(f"addrspacecast ptr {address} to ptr addrspace(3)")
            words = code.emit(f"call {t} {name}(ptr addrspace(3) {pointer})")
            for n in range(4):
                # The layout orders the rows of a column first.
                registers += _bytes(s, code.emit(f"extractvalue {t} {words}, {n}"), (0, 2, 1, 3))
    return registers


def _first_column(s: GpuState, mmas_m: int) -> str:
    """The first column of the thread's warp, as i64."""
    warp = s.first(f"lshr i32 {s.lane32}, 5")
    offset_in_group = s.first(f"shl i32 {s.first(f'and i32 {warp}, 3')}, 4")
    group = s.first(f"mul i32 {s.first(f'lshr i32 {warp}, 2')}, {HALF * mmas_m}")
    return s.first_wide(f"add i32 {offset_in_group}, {group}")


def pairs(s: GpuState, view: View, layout: Layout) -> Registers:
    """Read a tile in pairs of adjacent bytes; two pairs are packed into a register."""
    code, registers = s.code, list[Components]()
    for r in range(0, layout.register_count, 4):
        addresses = (s.memory.at(view, s.index(layout, r + k)) for k in (0, 2))
        halves = [
            code.emit(f"zext i16 {code.emit(f'load i16, ptr {at}, align 2')} to i32") for at in addresses
        ]
        word = code.emit(f"or i32 {halves[0]}, {code.emit(f'shl i32 {halves[1]}, 16')}")
        registers += _bytes(s, word, range(4))
    return registers


def _bytes(s: GpuState, word: str, order: Sequence[int]) -> Registers:
    vector, registers = s.code.emit(f"bitcast i32 {word} to <4 x i8>"), Registers()
    for k in order:
        byte = s.code.emit(f"extractelement <4 x i8> {vector}, i32 {k}")
        s.code.bytes_of[byte] = vector, k
        registers.append((byte,))
    return registers
