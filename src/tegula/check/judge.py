"""Verdicts on kernels that have a schedule: the prover searches for a proof, and the verifier replays it; without a
proof, launches of a schedule that a user wrote are simulated in search of a fault.

`check.schedule` imports this module on demand, because most kernels have no schedule and the modules of the prover take
longer to import than such a kernel takes to check."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tegula.check.bounded import explore, refuted
from tegula.check.guards import Guard, asserted, of_certificate
from tegula.check.limits import check_limits, shared_by_roles
from tegula.check.proof import Stuck, prove
from tegula.check.verdict import PROVED, UNPROVED, Gap, Refuted, Verdict
from tegula.check.verifier import Rejected, verify
from tegula.dataclass import replace
from tegula.ir import Contents, Kernel, Op
from tegula.ops.roles import Roles
from tegula.passes.runner import GpuCompilation

FAULTS = (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""The exceptions that a defect of the prover raises."""


def judged(kernel: Kernel, compilation: GpuCompilation) -> Verdict:
    """The verdict on a kernel with a schedule."""
    try:
        check_limits(kernel, compilation.shared.allocations, compilation.threads)
    except Refuted as e:
        return refuted(e)
    try:
        text, guards = certified(kernel, compilation)
        return Verdict(PROVED, certificate=text, guards=guards)
    except (Stuck, Rejected) as e:
        gap = _gap(kernel, e)
    except FAULTS as e:  # Launches are simulated after any failure of the prover.
        gap = Gap(f"the prover failed, please report this: {type(e).__name__}: {e}", kernel.loc, failed=True)
    if compilation.schedule.plan is not None:
        return _unproved(gap)
    guards = asserted(kernel)
    return replace(explore(kernel, compilation, gap, guards), guards=guards)


def judged_by(kernel: Kernel, compilation: GpuCompilation, certificate: Mapping[str, Any]) -> Verdict:
    """The verdict on a kernel with a schedule by a given certificate."""
    try:
        check_limits(kernel, compilation.shared.allocations, compilation.threads)
        verify_certificate(kernel, compilation, certificate)
    except Refuted as e:
        return refuted(e)
    except Rejected as e:
        return _unproved(_gap(kernel, e))
    text, guards = json.dumps(certificate, separators=(",", ":")), of_certificate(kernel, certificate)
    return Verdict(PROVED, certificate=text, guards=guards)


def _unproved(gap: Gap) -> Verdict:
    return Verdict(UNPROVED, message=gap.message, loc=gap.loc, help=gap.help, gap=gap)


def certified(kernel: Kernel, compilation: GpuCompilation) -> tuple[str, tuple[Guard, ...]]:
    """A certificate that the verifier has accepted, as text, and its guards; raises Stuck or Rejected if there is
    none."""
    text = json.dumps(prove(kernel, compilation), separators=(",", ":"))
    certificate = json.loads(text)
    verify_certificate(kernel, compilation, certificate)
    return text, of_certificate(kernel, certificate)


def verify_certificate(kernel: Kernel, compilation: GpuCompilation, certificate: Mapping[str, Any]) -> None:
    """Raise Rejected unless the certificate, and the checks outside of certificates, prove the schedule."""
    verify(kernel, compilation, certificate)
    shared = shared_by_roles(kernel, compilation.shared.allocations)
    if shared is not None:
        first, second = (v.name or "a buffer" for v in shared)
        owner = shared[0].owner
        message = f"{first} and {second}, which different roles use, overlap in shared memory"
        raise Rejected(message, owner if isinstance(owner, Op) else None)


def _gap(kernel: Kernel, e: Stuck | Rejected) -> Gap:
    roles = next(iter(Contents(kernel).of(Roles)), None)
    name = roles.names[e.role] if roles is not None and e.role >= 0 else ""
    loc = e.op.loc if e.op is not None else roles.loc if roles is not None else kernel.loc
    return Gap(e.message, loc, name, e.obligation, e.help)
