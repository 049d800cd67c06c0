"""Memory barriers between which roles do not alternate become barriers of one stage each."""

from __future__ import annotations

from collections.abc import Iterable

from tegula.ir import Kernel, Op, Region, Value
from tegula.ops.roles import Roles
from tegula.ops.scalar import Const
from tegula.ops.schedule import BulkLoad, MbarrierArrive, MbarrierExpect, MbarrierNew, MbarrierWait
from tegula.passes.runner import GpuCompilation
from tegula.types import MbarrierType, int32

StageOp = MbarrierWait | MbarrierArrive | MbarrierExpect | BulkLoad
"""The ops that name a stage of barriers."""


def separate_barriers(kernel: Kernel, _: GpuCompilation) -> None:
    """Make one `mbarrier.new` for each stage of barriers of which all ops name a constant stage, and of which some role
    waits, or arrives, at a part of the stages only: such barriers are no ring, whose stages are taken in turn."""
    uses: dict[Value, list[StageOp]] = {}
    for op in kernel.walk():
        if isinstance(op, StageOp):
            uses.setdefault(op.barriers, []).append(op)
    regions = [region for op in kernel.body.ops if isinstance(op, Roles) for region in op.regions]
    for value, ops in uses.items():
        made = value.owner
        if isinstance(made, MbarrierNew) and made.stages > 1 and _are_apart(made.stages, ops, regions):
            _separate(made, ops)


def _stage(op: StageOp) -> int | None:
    """The constant stage that an op names."""
    return op.stage.owner.value if isinstance(op.stage.owner, Const) else None


def _are_apart(stages: int, ops: Iterable[StageOp], regions: list[Region]) -> bool:
    named: dict[tuple[Region, bool], set[int]] = {}
    for op in ops:
        stage = _stage(op)
        if stage is None or not 0 <= stage < stages:
            return False
        region = next((region for region in regions if _is_within(op, region)), None)
        if region is not None:
            named.setdefault((region, isinstance(op, MbarrierWait)), set()).add(stage)
    return any(len(found) < stages for found in named.values())


def _is_within(op: Op, region: Region) -> bool:
    at = op.parent
    while at is not None and at is not region:
        at = at.parent.parent if at.parent is not None else None
    return at is region


def _separate(made: MbarrierNew, ops: Iterable[StageOp]) -> None:
    region = made.parent
    assert region is not None
    at = region.ops.index(made)
    zero = Const([], [int32], {"value": 0, "type": int32}, [], made.loc)
    attrs = {"arrivals": made.arrivals, "cluster": made.cluster, "stages": 1}
    apart = [MbarrierNew([], [MbarrierType(1)], attrs, [], made.loc) for _ in range(made.stages)]
    for stage, one in enumerate(apart):
        one.result.name = f"{made.result.name or 'barrier'}_{stage}"
    for op in ops:
        stage = _stage(op)
        assert stage is not None
        op.barriers, op.stage = apart[stage].result, zero.result
    for one in (zero, *apart):
        one.parent = region
    region.ops[at : at + 1] = [zero, *apart]
