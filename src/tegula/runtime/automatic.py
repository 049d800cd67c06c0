"""Code generation for GPUs. An automatic schedule is used only if it passes the checker and assembles cleanly;
otherwise the kernel keeps one role."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial

from tegula.backend.ptx import Complaint, Cubin
from tegula.check import emitted
from tegula.check.schedule import check_schedule
from tegula.check.verdict import NO_SCHEDULE, Verdict
from tegula.codegen.gpu import GpuCode, lower_kernel
from tegula.dataclass import dataclass
from tegula.errors import CompileError, SharedMemoryExceeded
from tegula.ir import Kernel
from tegula.passes.pipeline_gpu import for_gpu
from tegula.passes.runner import GpuCompilation, Observer
from tegula.passes.specialise import Schedule, with_less
from tegula.runtime.compile import check_memory
from tegula.runtime.config import config
from tegula.runtime.cuda.module import assembled
from tegula.target import CudaTarget


@dataclass(frozen=True, slots=True)
class Built:
    """A kernel compiled for a GPU: its LLVM IR, the assembled code, the verdict on its schedule, and the schedule that
    was made automatically."""

    code: GpuCode
    made: Cubin
    verdict: Verdict
    schedule: Schedule


def build(kernel: Kernel, target: CudaTarget, debug: bool = False, observe: Observer | None = None) -> Built:
    """Compile a prepared kernel, which the passes change in place. CompileError if the schedule that the user wrote
    does not pass the checker, or tiles do not fit a block."""
    spread, verdict = checked(kernel, target, debug, observe)
    while spread.schedule.plan is not None:
        try:
            built = _built(kernel, spread, verdict, target, debug)
            if not built.made.spill_bytes:
                return built
            reason = (
                f"its roles need more registers than the GPU has: {built.made.spill_bytes} bytes were spilled"
            )
        except Complaint as e:
            reason = f"ptxas rejects its roles: {str(e).splitlines()[-1]}"
        except SharedMemoryExceeded as e:
            reason = f"with roles {e.message}"
        schedule = with_less(kernel, target, spread.schedule, reason)
        spread, verdict = checked(kernel, target, debug, observe, schedule)
    accept(verdict)
    return _built(kernel, spread, verdict, target, debug)


def checked(
    kernel: Kernel,
    target: CudaTarget,
    debug: bool = False,
    observe: Observer | None = None,
    schedule: Schedule | None = None,
    judge: Callable[[Kernel, GpuCompilation], Verdict] = check_schedule,
) -> tuple[GpuCompilation, Verdict]:
    """The kernel distributed over the threads of a block, with automatic roles only if they pass the checker, and the
    verdict on it. `schedule`: the automatic schedule so far, if any; `judge`: the checker that gives the verdict."""
    while True:
        spread = for_gpu(kernel, target, observe, debug, schedule)
        verdict = judge(kernel, spread)
        if spread.schedule.plan is None or verdict.passed:
            return spread, verdict
        reason = f"its roles do not pass the checker: {verdict.message}"
        schedule = with_less(kernel, target, spread.schedule, reason, walks=False)


def accept(verdict: Verdict) -> None:
    """Raise an error, or give a warning if so configured, unless the schedule has passed the checker."""
    try:
        verdict.require()
    except CompileError as error:
        if config.check_schedules == "error":
            raise
        warnings.warn(str(error), RuntimeWarning, stacklevel=2)


def _built(
    kernel: Kernel, spread: GpuCompilation, verdict: Verdict, target: CudaTarget, debug: bool
) -> Built:
    code = lower_kernel(kernel, spread, target, debug, config.line_info)
    check_memory(code.shared, target.shared_per_block, target.arch)
    scheduled = verdict.status != NO_SCHEDULE
    require = partial(emitted.require, kernel=kernel) if scheduled else None
    made = assembled(code.text, target, code.waiting, require)
    if not made.is_ptx:
        code.check_registers(made.registers)
    return Built(code, made, verdict, spread.schedule)
