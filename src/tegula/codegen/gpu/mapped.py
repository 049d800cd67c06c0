"""Maps of tiles: a region without control flow, run for every register of a thread."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.codegen.elements import run_region
from tegula.codegen.gpu.state import GpuState
from tegula.codegen.gpu.widen import widened, widens_together
from tegula.codegen.scalar import Components
from tegula.ir import Region, Value
from tegula.ops.convert import Cast
from tegula.types import scalar_of


def mapped(s: GpuState, region: Region, given: Sequence[Sequence[Components]]) -> list[Components]:
    """What the region yields for the arguments of each register. Conversions of arguments that several registers share
    an instruction for are done first."""
    known = [dict[Value, Components]() for _ in given]
    for op in region.ops:
        if isinstance(op, Cast) and op.operands[0] in region.args:
            _widen(s, op, [args[region.args.index(op.operands[0])] for args in given], known)
    return [run_region(s, region, list(args), 1, done)[0] for args, done in zip(given, known, strict=True)]


def _widen(
    s: GpuState, op: Cast, numbers: Sequence[Components], known: Sequence[dict[Value, Components]]
) -> None:
    source, to = scalar_of(op.operands[0].type), op.attrs["to"]  # type: ignore[arg-type]
    if not widens_together(s.gpu, source, to):
        return
    made = iter(widened(s.code, [x for parts in numbers for x in parts], source, to))
    for parts, done in zip(numbers, known, strict=True):
        done[op.result] = tuple(next(made) for _ in parts)
