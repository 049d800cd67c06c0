"""Gathers from buffers: the elements of a tile at indices along an axis."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

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


def gather(s: GpuState, op: SharedGather) -> None:
    """Lower `group.gather`: each lane reads the index of each element, and the element."""
    layout, index, axis = s.layouts[op.result], s.buffers[op.index], op.axis

    def element(r: int, is_held: str) -> list[str]:
        at = s.index(layout, r)
        if is_held != "true":
            at = [s.code.emit(f"select i1 {is_held}, i64 {x}, i64 0") for x in at]
        (place,) = s.memory.load_view(index, [at[axis]], 1)
        return _element_at(s, s.buffers[op.buffer], at, axis, place, scalar_of(index.dtype))

    _bind(s, op.result, s.buffers[op.buffer].dtype, element)


def gather_each(s: GpuState, op: GatherEach) -> None:
    """Lower `group.gather_each`: each lane reads the elements at the indices in its registers."""
    source, index_type = s.buffers[op.buffer], op.index.type
    assert isinstance(index_type, TileType)
    dtype = scalar_of(index_type.dtype)

    def element(r: int, is_held: str) -> list[str]:
        (place,) = s.held[op.index][r]
        return _element_at(s, source, ["0"], 0, place, dtype)

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


def _element_at(
    s: GpuState, source: View, at: list[str], axis: int, position: str, dtype: DType
) -> list[str]:
    """The components of an element of a view at a position along an axis. A negative position counts from the end; an
    element out of bounds is 0."""
    n = source.shape[axis]
    extension = "sext" if dtype.kind == "i" else "zext"
    k = position if dtype.bits == 64 else s.code.emit(f"{extension} i{dtype.bits} {position} to i64")
    wrapped = s.code.emit(f"add i64 {k}, {n}")
    negative = s.code.emit(f"icmp slt i64 {k}, 0")
    k = s.code.emit(f"select i1 {negative}, i64 {wrapped}, i64 {k}")
    ok = s.code.emit(f"icmp ult i64 {k}, {n}")
    clamped_index = [*at[:axis], s.code.emit(f"select i1 {ok}, i64 {k}, i64 0"), *at[axis + 1 :]]
    t = register_type(scalar_of(source.dtype), 1)
    parts = zip(s.memory.load_view(source, clamped_index, 1), zeros(source.dtype), strict=True)
    return [s.code.emit(f"select i1 {ok}, {t} {x}, {t} {zero}") for x, zero in parts]


RULES: dict[type[Op], Callable[[GpuState, Any], None]] = {SharedGather: gather, GatherEach: gather_each}
