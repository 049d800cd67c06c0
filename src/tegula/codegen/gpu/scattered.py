"""Gathers and scatters of array elements at per-element coordinates, with one access per element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tegula.codegen.elements import array_pointer, is_selected
from tegula.codegen.gpu.control import emit_if, run_conditionally
from tegula.codegen.gpu.state import GpuState, zeros
from tegula.codegen.text import register_type
from tegula.deferred import deferred_imports
from tegula.ir import Op, ScatteredAccess, Value
from tegula.ops.array_gather import ArrayGather, ArrayScatter, ArrayScatterAtomic, ArrayScatterCas
from tegula.ops.tile import tile_type
from tegula.types import scalar_of

with deferred_imports():
    from tegula.codegen.atomics import atomic_element, compare_and_swap_element


def gather(s: GpuState, op: ArrayGather) -> None:
    """Lower `array.gather`: a load for each selected element in bounds."""
    layout, array, fill = s.layouts[op.result], s.arrays[op.array], list(s.components(op.fill))
    types = [register_type(scalar_of(array.dtype), 1)] * len(fill)
    values: list[str] = []
    for r in range(layout.register_count):
        pointer, ok = _address(s, op, r)
        ok = _and(s, ok, s.holds(layout, r))
        values += run_conditionally(
            s, ok, types, lambda pointer=pointer: list(s.memory.load_element(pointer, array.dtype)), fill
        )
    s.bind(op.result, values)


def scatter(s: GpuState, op: ArrayScatter) -> None:
    """Lower `array.scatter`: a store for each element, by the owning thread."""
    layout, array = s.layouts[op.tile], s.arrays[op.array]

    def act() -> None:
        for r in range(layout.register_count):
            pointer, ok = _address(s, op, r)
            parts = s.held[op.tile][r]
            emit_if(
                s, _and(s, ok, s.holds(layout, r, _partial(op.tile))),
                lambda pointer=pointer, parts=parts: s.memory.store_element(pointer, parts, array.dtype),
            )  # fmt: skip

    emit_if(s, s.owner(layout), act)


def scatter_atomic(s: GpuState, op: ArrayScatterAtomic | ArrayScatterCas) -> None:
    """Lower `array.scatter_atomic` or `array.scatter_cas`, once for each element. The result holds the previous
    elements, and 0 for dropped elements."""
    layout, array = s.layouts[op.tile], s.arrays[op.array]
    zero_components = list(zeros(array.dtype))
    types = [register_type(scalar_of(array.dtype), 1)] * len(zero_components)
    values: list[str] = []
    for r in range(layout.register_count):
        pointer, ok = _address(s, op, r)
        ok = _and(s, _and(s, ok, s.holds(layout, r, _partial(op.tile))), s.owner(layout))

        def act(pointer: str = pointer, r: int = r) -> list[str]:
            new_components = s.held[op.tile][r]
            if isinstance(op, ArrayScatterCas):
                expected = s.held[op.expected][r]
                return list(compare_and_swap_element(s.code, pointer, array.dtype, expected, new_components))
            return list(atomic_element(s.code, op.op, pointer, array.dtype, new_components))

        values += run_conditionally(s, ok, types, act, zero_components)
    s.bind(op.result, values)


def _address(s: GpuState, op: ScatteredAccess, register: int) -> tuple[str, str]:
    """The address of a register's element, and an i1, whether the element is selected and in bounds."""
    array = s.arrays[op.array]
    (selection,), *coordinate_components = (s.held[v][register] for v in (op.where, *op.at))
    coordinates = [x for (x,) in coordinate_components]
    return array_pointer(s, array, coordinates), is_selected(s, selection, array, coordinates)


def _partial(tile: Value) -> bool:
    return tile_type(tile.type, partial=True).partial


def _and(s: GpuState, a: str, b: str) -> str:
    return a if b == "true" else s.code.emit(f"and i1 {a}, {b}")


RULES: dict[type[Op], Callable[[GpuState, Any], None]] = {
    ArrayGather: gather,
    ArrayScatter: scatter,
    ArrayScatterAtomic: scatter_atomic,
    ArrayScatterCas: scatter_atomic,
}
