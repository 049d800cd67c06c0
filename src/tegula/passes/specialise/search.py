"""The search for a schedule: the plan to try after a failed one."""

from __future__ import annotations

from collections.abc import Iterator

from tegula.dataclass import replace
from tegula.ir import Kernel
from tegula.passes.specialise.plan import MAX_GROUPS
from tegula.passes.specialise.schedule import Choice, Failure, RejectedPlan, RolePlan, Schedule
from tegula.passes.specialise.specialise import make_roles
from tegula.target import CudaTarget


def next_schedule(
    kernel: Kernel, target: CudaTarget, failed: Schedule, failure: Failure, reason: str
) -> Schedule:
    """The schedule to try after a failure for `reason`, with the kernel rewritten accordingly; a schedule without roles
    if no plan is left. The user's decisions are kept."""
    assert failed.plan is not None
    _undo(kernel, failed)
    rejected = (*failed.rejected, RejectedPlan(failed.plan, reason))
    tried = {rejected_plan.plan for rejected_plan in rejected}
    for choice in _simpler_choices(Choice(**kernel.schedule), failed.choice, failed.plan, failure):
        schedule = make_roles(kernel, target, choice)
        if schedule.plan is not None and schedule.plan not in tried:
            return replace(schedule, rejected=rejected)
        if schedule.plan is not None:
            _undo(kernel, schedule)
    return Schedule(None, reason, rejected=rejected)


def _undo(kernel: Kernel, schedule: Schedule) -> None:
    """Restore the kernel's body, of which the pass changed a copy."""
    kernel.body.ops = list(schedule.before)


def _simpler_choices(requested: Choice, choice: Choice, plan: RolePlan, failure: Failure) -> Iterator[Choice]:
    """Simpler decisions that may succeed, in order of estimated loss. `requested`: the user's decisions."""
    if failure is Failure.SHARED_MEMORY and requested.stages is None and max(plan.stages) > 1:
        yield replace(choice, stages=max(plan.stages) - 1)
    if plan.overlaps:
        yield replace(choice, overlap=False)
    elif failure is Failure.UNPROVED and plan.persistent and requested.persistent is None:
        yield replace(choice, persistent=False, scale=())
    if failure is Failure.REGISTERS and requested.consumers is None:
        for groups in range(plan.consumers + 1, MAX_GROUPS + 1):
            yield replace(choice, consumers=groups, overlap=requested.overlap)
    if choice.scale:
        yield replace(choice, scale=(), consumers=requested.consumers, overlap=requested.overlap)
