"""Lines and elements of tiles, read from registers and by shuffles."""

from __future__ import annotations

from collections.abc import Mapping

from tegula.codegen.arrays import lower_access
from tegula.codegen.gpu.exchange import shuffled
from tegula.codegen.gpu.state import GpuState, Registers
from tegula.codegen.scalar import Components
from tegula.codegen.storage import View
from tegula.codegen.text import register_type
from tegula.ir import Value
from tegula.layout import COPY, Layout, Mode
from tegula.ops.tile import TileExtract, TileSlice
from tegula.passes.lines import line_of
from tegula.types import ElementType, TileType, components, scalar_of


def slice_of_tile(s: GpuState, op: TileSlice) -> None:
    """Lower a `tile.slice` at one index along some of the dimensions."""
    line = line_of(op)
    assert line is not None
    s.held[op.result] = _select_line(s, op.tile, line.at)


def extract(s: GpuState, op: TileExtract) -> None:
    """Lower `tile.extract`: an element, or a component of a tile's one element."""
    source, line = op.tile, line_of(op)
    if line is not None:
        (s.scalars[op.result],) = _select_line(s, source, line.at)
        return
    t = source.type
    assert isinstance(t, TileType)
    rank, parts = len(t.shape), s.held[source][0]
    inner = op.indices[rank:]
    if not inner:
        s.scalars[op.result] = parts
        return
    spill = s.allocate("element", t.dtype, (1,))
    s.memory.store_view(spill, ["0"], parts, 1)
    view = View(spill.pointer, t.dtype, (1,) * rank, (components(t.dtype),) * rank)
    s.tiles[source] = view
    access = lower_access(s, op)
    assert access is not None
    s.scalars[op.result] = access


def _select_line(s: GpuState, tile: Value, at: Mapping[int, Value]) -> Registers:
    """The registers of a tile at one index along some dimensions, in the order of the layout without these
    dimensions."""
    t, layout = tile.type, s.layouts[tile]
    assert isinstance(t, TileType)
    digits = {d: s.i64(v) for d, v in at.items()}
    registers = s.held[tile]
    inner_count = 1
    for mode in layout.registers:
        if mode.dim in digits:
            registers = _select_digit(
                s, registers, inner_count, mode.size, _digit(s, digits[mode.dim], mode), t.dtype
            )
        else:
            inner_count *= mode.size
    lane = _source_lane(s, layout, digits)
    return registers if lane is None else [shuffled(s, parts, t.dtype, "idx", lane) for parts in registers]


def _digit(s: GpuState, digit: str, mode: Mode) -> str:
    """The digit of an index in a mode; a literal if the index is a literal."""
    if not digit.startswith("%"):
        return str(int(digit) // mode.stride % mode.size)
    quotient = s.code.emit(f"udiv i64 {digit}, {mode.stride}") if mode.stride > 1 else digit
    return s.code.emit(f"urem i64 {quotient}, {mode.size}")


def _select_digit(
    s: GpuState, registers: Registers, inner_count: int, size: int, digit: str, dtype: ElementType
) -> Registers:
    """The registers with a given digit of a mode of `size`, which follows modes with `inner_count` registers."""
    rows = [registers[k : k + inner_count] for k in range(0, len(registers), inner_count)]
    if not digit.startswith("%"):
        return [x for row in rows[int(digit) :: size] for x in row]
    tests = [s.code.emit(f"icmp eq i64 {digit}, {k}") for k in range(1, size)]
    result: Registers = []
    for k in range(0, len(rows), size):
        row_registers = rows[k]
        for test, row in zip(tests, rows[k + 1 : k + size], strict=True):
            row_registers = [_select(s, test, x, y, dtype) for x, y in zip(row, row_registers, strict=True)]
        result += row_registers
    return result


def _select(s: GpuState, test: str, x: Components, y: Components, dtype: ElementType) -> Components:
    t = register_type(scalar_of(dtype), 1)
    return tuple(s.code.emit(f"select i1 {test}, {t} {a}, {t} {b}") for a, b in zip(x, y, strict=True))


def _source_lane(s: GpuState, layout: Layout, digits: Mapping[int, str]) -> str | None:
    """The lane of the warp that holds the indexed elements and otherwise the same elements as this lane, as an i32;
    None if each lane holds the elements."""
    lanes, _ = layout.warp_modes
    constant, terms, period, is_indexed = 0, list[str](), 1, False
    for mode in lanes:
        if mode.dim in digits:
            is_indexed = True
            digit = _digit(s, digits[mode.dim], mode)
            if not digit.startswith("%"):
                constant += int(digit) * period
            else:
                digit_32 = s.code.emit(f"trunc i64 {digit} to i32")
                terms.append(s.code.emit(f"mul i32 {digit_32}, {period}"))
        elif mode.dim != COPY:
            lane_digit = s.digit(period, mode.size)
            terms.append(lane_digit if period == 1 else s.first(f"mul i32 {lane_digit}, {period}"))
        period *= mode.size
    if not is_indexed:
        return None
    lane = str(constant)
    for term in terms:
        lane = term if lane == "0" else s.code.emit(f"add i32 {lane}, {term}")
    return lane
