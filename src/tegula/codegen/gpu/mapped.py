"""Maps of tiles: the region is lowered for every register of a thread."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.codegen.elements import is_faster_in_lockstep, is_vectorised, run_regions
from tegula.codegen.gpu.control import diverging, run_conditionally
from tegula.codegen.gpu.quotients import finished
from tegula.codegen.gpu.state import GpuState, zeros
from tegula.codegen.gpu.widen import widened, widens_together
from tegula.codegen.scalar import Components, lower
from tegula.codegen.text import register_type
from tegula.ir import Op, Region, Value
from tegula.ops.convert import Cast
from tegula.ops.tile import TileMap
from tegula.types import ElementType, TileType, components, scalar_of

TOGETHER = 8
"""The number of elements that a thread computes in lockstep for regions with branches."""
Given = Sequence[Sequence[Components]]
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


def _straight(s: GpuState, region: Region, environments: Given, dtype: ElementType) -> list[Components]:
    """The results of a straight region for each register. Conversions with an instruction for several registers are
    lowered first; regions with branches are computed for several registers in lockstep."""
    known = [dict[Value, Components]() for _ in environments]
    positions = {argument: k for k, argument in enumerate(region.args)}
    for op in region.ops:
        if isinstance(op, Cast) and op.x in positions:
            _widen(s, op, [args[positions[op.x]] for args in environments], known)
    if not is_faster_in_lockstep(s, region):
        if not any(known) and not any(op.regions for op in region.ops):
            return _one_by_one(s, region, environments)
        return [
            run_regions(s, region, [args], 1, [done])[0][0]
            for args, done in zip(environments, known, strict=True)
        ]
    one = register_type(scalar_of(dtype), 1)
    results: list[Components] = []
    for first in range(0, len(environments), TOGETHER):
        part = slice(first, first + TOGETHER)
        with diverging(s):
            lowered = run_regions(s, region, environments[part], 1, known[part])
        results += [tuple(finished(s.code, x, one) for x in parts) for (parts,) in lowered]
    return results


def _one_by_one(s: GpuState, region: Region, environments: Given) -> list[Components]:
    """The results of a region without branches for each register. Unrolled loops over lines of tiles run such regions
    some ten thousand times, so that values are found by position."""
    at = {value: k for k, value in enumerate(region.args)}
    steps: list[tuple[Op, list[int]]] = []
    for op in region.ops[:-1]:
        steps.append((op, [at[v] for v in op.operands]))
        at[op.results[0]] = len(at)
    (result,) = region.yielded
    code, last = s.code, at[result]
    results: list[Components] = []
    for args in environments:
        values = [*args]
        for op, operands in steps:
            values.append(lower(code, op, [values[k] for k in operands], 1))
        results.append(values[last])
    return results


def _widen(
    s: GpuState, op: Cast, numbers: Sequence[Components], known: Sequence[dict[Value, Components]]
) -> None:
    source, to = scalar_of(op.x.type), op.to  # type: ignore[arg-type]
    if not widens_together(s.gpu, source, to):
        return
    converted = iter(widened(s.code, [x for parts in numbers for x in parts], source, to))
    for parts, done in zip(numbers, known, strict=True):
        done[op.result] = tuple(next(converted) for _ in parts)
