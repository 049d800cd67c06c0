"""Splits arrays of mbarriers that are not used as a ring into mbarriers of one stage."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from tegula.ir import ConstantLike, Kernel, Value
from tegula.ops.scalar import Const
from tegula.ops.schedule import MbarrierNew, StageOp
from tegula.passes.groups import role_of
from tegula.passes.runner import GpuCompilation
from tegula.types import MbarrierType, int32


def separate_barriers(kernel: Kernel, _: GpuCompilation) -> None:
    """Make one `mbarrier.new` for each stage of barriers whose ops all have a constant stage, if some role waits or
    arrives at some of the stages only. The stages of a ring are used cyclically."""
    uses: dict[Value, list[StageOp]] = {}
    for op in kernel.walk():
        if isinstance(op, StageOp):
            uses.setdefault(op.barriers, []).append(op)
    for barriers, ops in uses.items():
        if isinstance(barriers.type, MbarrierType) and _is_not_a_ring(barriers.type.stages, ops):
            _separate(cast(MbarrierNew, barriers.owner), ops)


def _is_not_a_ring(stages: int, ops: Iterable[StageOp]) -> bool:
    stages_of_user: dict[object, set[int]] = {}
    for op in ops:
        if not isinstance(op.stage.owner, ConstantLike):
            return False
        stages_of_user.setdefault((role_of(op), op.WAITS), set()).add(op.stage.owner.value)
    inside = all(0 <= stage < stages for stages_used in stages_of_user.values() for stage in stages_used)
    return inside and any(len(stages_used) < stages for stages_used in stages_of_user.values())


def _separate(barrier: MbarrierNew, ops: Iterable[StageOp]) -> None:
    region = barrier.parent
    assert region is not None
    zero = Const([], [int32], {"value": 0, "type": int32}, [], barrier.loc)
    per_stage = barrier.per_stage_barriers()
    barriers = [new_op.result for new_op in per_stage]
    for op in ops:
        assert isinstance(op.stage.owner, ConstantLike)
        op.barriers, op.stage = barriers[op.stage.owner.value], zero.result
    for new_op in (zero, *per_stage):
        new_op.parent = region
    at = region.ops.index(barrier)
    region.ops[at : at + 1] = [zero, *per_stage]
