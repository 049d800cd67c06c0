"""The checker: decides whether the schedule of a lowered kernel is correct (docs/checker.md).

An automatic schedule without a proof is not used, whether it has faults or not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tegula.check.premises import determinism
from tegula.check.verdict import NO_SCHEDULE, PROVED, REFUTED, Verdict
from tegula.dataclass import replace
from tegula.ir import Contents, Kernel
from tegula.ops import events as E
from tegula.ops.roles import Roles
from tegula.ops.schedule import MbarrierNew, NamedNew, ScheduleOp
from tegula.passes.runner import GpuCompilation


def check_schedule(kernel: Kernel, compilation: GpuCompilation) -> Verdict:
    """The verdict on a kernel as it is emitted."""
    if not _has_schedule(kernel):
        return Verdict(NO_SCHEDULE, results=determinism(kernel, True))
    from tegula.check.judge import judged

    return _with_results(kernel, judged(kernel, compilation))


def check_certificate(kernel: Kernel, compilation: GpuCompilation, certificate: Mapping[str, Any]) -> Verdict:
    """The verdict on a kernel as it is emitted, by a given certificate: proved, or unproved if the verifier rejects the
    certificate."""
    if not _has_schedule(kernel):
        return Verdict(NO_SCHEDULE, results=determinism(kernel, True))
    from tegula.check.judge import judged_by

    verdict = judged_by(kernel, compilation, certificate)
    return _with_results(kernel, verdict) if verdict.status == PROVED else verdict


def _with_results(kernel: Kernel, verdict: Verdict) -> Verdict:
    if verdict.status == REFUTED:
        return verdict
    return replace(verdict, results=determinism(kernel, verdict.status == PROVED))


def _has_schedule(kernel: Kernel) -> bool:
    """Whether an op is part of a schedule: roles, a barrier between warps, or an asynchronous operation."""
    contents = Contents(kernel)
    if contents.have(Roles, MbarrierNew, NamedNew):
        return True
    return any(map(E.is_asynchronous, contents.of(*E.IN_FLIGHT, ScheduleOp)))
