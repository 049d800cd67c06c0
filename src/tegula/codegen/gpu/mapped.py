"""Maps of tiles: the region is lowered for every register of a thread."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.codegen.elements import is_faster_in_lockstep, is_vectorised, run_regions
from tegula.codegen.gpu.control import diverging, run_conditionally
from tegula.codegen.gpu.quotients import pinned
from tegula.codegen.gpu.state import GpuState, zeros
from tegula.codegen.gpu.widen import widened, widens_together
from tegula.codegen.scalar import Components, lower
from tegula.codegen.text import register_type
from tegula.ir import Op, Region, Value
from tegula.ops.convert import Cast
from tegula.ops.tile import TileMap
from tegula.types import ElementType, TileType, components, scalar_of

LOCKSTEP_ELEMENTS = 8
"""The number of elements that a thread computes in lockstep for regions with branches."""
RegionArguments = Sequence[Sequence[Components]]
"""The arguments of a region for each register."""


def mapped(s: GpuState, *ops: Op) -> None:
    """Lower maps that apply the same function to tiles of one layout."""
    first = ops[0]
    assert isinstance(first, TileMap)
    region, layout, t = first.function, s.layouts[first.result], first.result.type
    assert isinstance(t, TileType)
    environments = [
        [s.held[v][r] if isinstance(v.type, TileType) else s.components(v) for v in op.operands]
        for op in ops
        for r in range(layout.register_count)
    ]
    if is_vectorised(s, first):
        results = _straight(s, region, environments, t.dtype)
        for k, op in enumerate(ops):
            s.held[op.result] = results[k * layout.register_count : (k + 1) * layout.register_count]
        return
    (op,) = ops
    types = [register_type(scalar_of(t.dtype), 1)] * components(t.dtype)
    s.held[op.result] = [
        tuple(
            run_conditionally(
                s, s.holds(layout, r, t.partial), types,
                lambda args=args: list(s.run_branching(region, args)[0]), list(zeros(t.dtype)),
            )
        )
        for r, args in enumerate(environments)
    ]  # fmt: skip


def _straight(
    s: GpuState, region: Region, environments: RegionArguments, dtype: ElementType
) -> list[Components]:
    """The results of a straight region for each register. Conversions with an instruction for several registers are
    lowered first; regions with branches are computed for several registers in lockstep."""
    known = [dict[Value, Components]() for _ in environments]
    positions = {argument: k for k, argument in enumerate(region.args)}
    for op in region.ops:
        if isinstance(op, Cast) and op.x in positions:
            _widen(s, op, [args[positions[op.x]] for args in environments], known)
    if not is_faster_in_lockstep(s, region):
        if not any(known) and not any(op.regions for op in region.ops):
            return _lower_per_register(s, region, environments)
        return [
            run_regions(s, region, [args], 1, [done])[0][0]
            for args, done in zip(environments, known, strict=True)
        ]
    scalar_type = register_type(scalar_of(dtype), 1)
    results: list[Components] = []
    for first in range(0, len(environments), LOCKSTEP_ELEMENTS):
        chunk = slice(first, first + LOCKSTEP_ELEMENTS)
        with diverging(s):
            lowered = run_regions(s, region, environments[chunk], 1, known[chunk])
        results += [tuple(pinned(s.code, x, scalar_type) for x in parts) for (parts,) in lowered]
    return results


def _lower_per_register(s: GpuState, region: Region, environments: RegionArguments) -> list[Components]:
    """The results of a region without branches for each register. Unrolled loops over lines of tiles lower such regions
    some ten thousand times, so values are looked up by position instead of in a dictionary."""
    position_of_value = {value: k for k, value in enumerate(region.args)}
    steps: list[tuple[Op, list[int]]] = []
    for op in region.ops[:-1]:
        steps.append((op, [position_of_value[v] for v in op.operands]))
        position_of_value[op.results[0]] = len(position_of_value)
    (result,) = region.yielded
    code, result_position = s.code, position_of_value[result]
    results: list[Components] = []
    for args in environments:
        values = [*args]
        for op, operands in steps:
            values.append(lower(code, op, [values[k] for k in operands], 1))
        results.append(values[result_position])
    return results


def _widen(
    s: GpuState, op: Cast, sources: Sequence[Components], known: Sequence[dict[Value, Components]]
) -> None:
    source, to = scalar_of(op.x.type), op.to  # type: ignore[arg-type]
    if not widens_together(s.gpu, source, to):
        return
    converted = iter(widened(s.code, [x for parts in sources for x in parts], source, to))
    for parts, done in zip(sources, known, strict=True):
        done[op.result] = tuple(next(converted) for _ in parts)
