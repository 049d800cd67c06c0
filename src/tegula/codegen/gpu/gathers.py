"""Gathers from buffers: the elements of a tile at indices along an axis."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from tegula.codegen.gpu.access import or_fill
from tegula.codegen.gpu.control import run_conditionally
from tegula.codegen.gpu.state import GpuState, zeros
from tegula.codegen.scalar import Components
from tegula.codegen.storage import View
from tegula.codegen.text import register_type
from tegula.ir import Op, Value
from tegula.ops.group import GatherEach, SharedGather
from tegula.ops.roles import WARP
from tegula.types import DType, ElementType, TileType, components, scalar_of

Element = Callable[[int, str], list[str]]
"""The components of the element in a register, given the condition that the register holds an element."""


class Position(NamedTuple):
    """The position of a gathered element along an axis. `clamped`: the position, 0 if it is out of bounds; `is_inside`:
    whether it is in bounds."""

    clamped: str
    is_inside: str


def gather(s: GpuState, op: SharedGather) -> None:
    """Lower `group.gather`: each lane reads the index of each element, once for all elements at the same place along
    the axis, and the element."""
    layout, index, source, axis = s.layouts[op.result], s.buffers[op.index], s.buffers[op.buffer], op.axis
    known: dict[tuple[int, str], Position] = {}

    def element(r: int, is_held: str) -> list[str]:
        at = s.index(layout, r)
        if is_held != "true":
            at = [s.code.emit(f"select i1 {is_held}, i64 {x}, i64 0") for x in at]
        # In a block of several warps an element is read under a branch of its own.
        key = layout.register_offsets(r)[axis], is_held
        position = known.get(key) if s.threads == WARP else None
        if position is None:
            (place,) = s.memory.load_view(index, [at[axis]], 1)
            position = known[key] = _position(s, place, scalar_of(index.dtype), source.shape[axis])
        return _element_at(s, source, at, axis, position)

    _bind(s, op.result, source.dtype, element)


def gather_each(s: GpuState, op: GatherEach) -> None:
    """Lower `group.gather_each`: each lane reads the elements at the indices in its registers."""
    source, index_type = s.buffers[op.buffer], op.index.type
    assert isinstance(index_type, TileType)
    dtype = scalar_of(index_type.dtype)

    def element(r: int, is_held: str) -> list[str]:
        (place,) = s.held[op.index][r]
        return _element_at(s, source, ["0"], 0, _position(s, place, dtype, source.shape[0]))

    _bind(s, op.result, source.dtype, element)


def _bind(s: GpuState, result: Value, dtype: ElementType, element: Element) -> None:
    """Bind the registers of a gathered tile. In a block of one warp all lanes read, because a branch around an element
    would skip no warp, and reads under separate branches wait for each other."""
    layout = s.layouts[result]
    types, zero = [register_type(scalar_of(dtype), 1)] * components(dtype), list(zeros(dtype))
    registers: list[Components] = []
    for r in range(layout.register_count):
        is_held = s.holds(layout, r)
        if s.threads == WARP:
            registers.append(tuple(or_fill(s, is_held, types, element(r, is_held), zero)))
        else:
            registers.append(tuple(run_conditionally(s, is_held, types, partial(element, r, "true"), zero)))
    s.held[result] = registers


def _position(s: GpuState, place: str, dtype: DType, n: int) -> Position:
    """The position of an index among n elements. A negative index counts from the end."""
    extension = "sext" if dtype.kind == "i" else "zext"
    k = place if dtype.bits == 64 else s.code.emit(f"{extension} i{dtype.bits} {place} to i64")
    wrapped = s.code.emit(f"add i64 {k}, {n}")
    negative = s.code.emit(f"icmp slt i64 {k}, 0")
    k = s.code.emit(f"select i1 {negative}, i64 {wrapped}, i64 {k}")
    ok = s.code.emit(f"icmp ult i64 {k}, {n}")
    return Position(s.code.emit(f"select i1 {ok}, i64 {k}, i64 0"), ok)


def _element_at(s: GpuState, source: View, at: list[str], axis: int, position: Position) -> list[str]:
    """The components of an element of a view at a position along an axis; 0 for an element out of bounds."""
    index = [*at[:axis], position.clamped, *at[axis + 1 :]]
    t = register_type(scalar_of(source.dtype), 1)
    parts = zip(s.memory.load_view(source, index, 1), zeros(source.dtype), strict=True)
    return [s.code.emit(f"select i1 {position.is_inside}, {t} {x}, {t} {zero}") for x, zero in parts]


RULES: dict[type[Op], Callable[[GpuState, Any], None]] = {SharedGather: gather, GatherEach: gather_each}
