"""Conversion between tiles and the values of threads."""

from __future__ import annotations

from tegula.codegen.gpu.state import GpuState, zeros
from tegula.codegen.text import register_type
from tegula.ops.lane import TileFromLanes, TileToLanes
from tegula.types import scalar_of


def from_lanes(s: GpuState, op: TileFromLanes) -> None:
    """Lower `tile.from_lanes`: each thread's value is an element, a column of elements, or the elements of a grid. The
    elements of absent threads are 0 for a grid, and dropped otherwise."""
    parts = s.components(op.value)
    if op.grid is not None and s.kernel.launch.partial:
        is_present = s.code.emit(f"icmp ult i64 {s.lane}, {s.present}")
        t, zero_components = register_type(scalar_of(op.value.type), 1), zeros(op.value.type)  # type: ignore[arg-type]
        pairs = zip(parts, zero_components, strict=True)
        parts = tuple(s.code.emit(f"select i1 {is_present}, {t} {x}, {t} {zero}") for x, zero in pairs)
    s.held[op.result] = [parts] if op.preserve_type else [(p,) for p in parts]


def to_lanes(s: GpuState, op: TileToLanes) -> None:
    """Lower `tile.to_lanes`: the registers of a tile. For a grid, registers beyond the tile are 0."""
    layout, values = s.layouts[op.tile], [x for parts in s.held[op.tile] for x in parts]
    if op.grid is not None:
        t, (zero, *_) = register_type(scalar_of(op.result.type), 1), zeros(op.result.type)  # type: ignore[arg-type]
        is_held = [s.holds(layout, r) for r in range(len(values))]
        values = [
            x if ok == "true" else s.code.emit(f"select i1 {ok}, {t} {x}, {t} {zero}")
            for x, ok in zip(values, is_held, strict=True)
        ]
    s.scalars[op.result] = tuple(values)
