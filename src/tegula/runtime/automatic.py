"""Compilation for GPUs with automatic schedules: a schedule must pass the checker and fit a block; among valid
schedules, register spills count as cost."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from itertools import count

from tegula.backend.ptx import Complaint, Cubin
from tegula.check.schedule import check_schedule
from tegula.check.verdict import NO_SCHEDULE, Verdict
from tegula.codegen.gpu import GpuCode, lower_kernel
from tegula.dataclass import dataclass, replace
from tegula.deferred import deferred_imports
from tegula.errors import CompileError, SharedMemoryExceeded, TileTooLarge
from tegula.ir import Kernel, MatmulLike, Op
from tegula.ir.rewrite import clone_ops
from tegula.passes.assign_layouts import Layouts
from tegula.passes.pipeline_gpu import for_gpu
from tegula.passes.runner import GpuCompilation, Observer
from tegula.passes.specialise import Failure, Schedule, next_schedule
from tegula.runtime.compile import check_memory
from tegula.runtime.config import config
from tegula.runtime.cuda.module import assembled
from tegula.target import CudaTarget
from tegula.types import TileType

with deferred_imports():
    from tegula.check.emitted import require as require_emitted
    from tegula.passes.specialise.costs import cost_of_one_role, cost_with_roles

MAX_ASSEMBLIES = 3
"""The number of plans to assemble after the first usable one."""
MAX_ELEMENTS_OF_THREAD = 1024
"""The elements of a tile that a thread may hold, four times its registers. Where all are used after a reduction of the
tile, 1024 take 7 s to compile and 2880 more than 200 s; a sum alone takes 0.4 s for 1024 and 2.6 s for 4096."""


@dataclass(frozen=True, slots=True)
class Built:
    """A kernel compiled for a GPU: its LLVM IR, the assembled code, the verdict on its schedule, and the automatic
    schedule."""

    code: GpuCode
    cubin: Cubin
    verdict: Verdict
    schedule: Schedule


def build(kernel: Kernel, target: CudaTarget, debug: bool = False, observe: Observer | None = None) -> Built:
    """Compile a prepared kernel, which the passes modify in place. CompileError if a hand-written schedule does not
    pass the checker, or tiles do not fit a block."""
    best: tuple[float, Built, list[Op]] | None = None
    source_ops = clone_ops(kernel.body.ops)[0].ops
    compilation, verdict = checked(kernel, target, debug, observe)
    for attempt in count(1):
        plan = compilation.schedule.plan
        if plan is None:
            break
        try:
            built = _assemble(kernel, compilation, verdict, target, debug)
            spilled = built.cubin.spill_bytes
            if not spilled:
                return built
            cost = cost_with_roles(plan, spilled)
            if cost < (best[0] if best else cost_of_one_role(plan)):
                best = cost, built, kernel.body.ops
            failure, reason = Failure.REGISTERS, f"its roles spill {spilled} bytes of registers a thread"
        except Complaint as e:
            failure, reason = Failure.REGISTERS, f"ptxas rejects its roles: {str(e).splitlines()[-1]}"
        except SharedMemoryExceeded as e:
            failure, reason = Failure.SHARED_MEMORY, f"with roles {e.message}"
        if attempt == MAX_ASSEMBLIES and best:
            break
        schedule = next_schedule(kernel, target, compilation.schedule, failure, reason)
        compilation, verdict = checked(kernel, target, debug, observe, schedule)
    if best is None:
        return _with_one_role(kernel, source_ops, compilation, verdict, target, debug, observe)
    _, built, kernel.body.ops = best
    rejected = tuple(
        rejection for rejection in compilation.schedule.rejected if rejection.plan != built.schedule.plan
    )
    return replace(built, schedule=replace(built.schedule, rejected=rejected))


def _with_one_role(
    kernel: Kernel,
    source_ops: list[Op],
    compilation: GpuCompilation,
    verdict: Verdict,
    target: CudaTarget,
    debug: bool,
    observe: Observer | None,
) -> Built:
    """Compile the kernel without automatic roles. `source_ops`: the ops of the kernel before the passes, from which the
    kernel is compiled again, with reloaded operands, if its tiles do not fit a block otherwise."""
    require_accepted(verdict)
    try:
        return _assemble(kernel, compilation, verdict, target, debug)
    except SharedMemoryExceeded:
        if not any(isinstance(op, MatmulLike) for top in source_ops for op in top.walk()):
            raise
    kernel.body.ops = source_ops
    for op in source_ops:
        op.parent = kernel.body
    compilation = for_gpu(kernel, target, observe, debug, compilation.schedule, reload=True)
    return _assemble(kernel, compilation, check_schedule(kernel, compilation), target, debug)


def checked(
    kernel: Kernel,
    target: CudaTarget,
    debug: bool = False,
    observe: Observer | None = None,
    schedule: Schedule | None = None,
    check: Callable[[Kernel, GpuCompilation], Verdict] = check_schedule,
) -> tuple[GpuCompilation, Verdict]:
    """The kernel distributed over the threads of a block, with automatic roles only if they pass the checker, and the
    verdict. `schedule`: the automatic schedule so far, if any; `check`: the checker that gives the verdict."""
    while True:
        compilation = for_gpu(kernel, target, observe, debug, schedule)
        verdict = check(kernel, compilation)
        if compilation.schedule.plan is None or verdict.passed:
            return compilation, verdict
        reason = f"its roles do not pass the checker: {verdict.message}"
        schedule = next_schedule(kernel, target, compilation.schedule, Failure.UNPROVED, reason)


def require_accepted(verdict: Verdict) -> None:
    """Raise an error, or warn if so configured, unless the schedule has passed the checker."""
    try:
        verdict.require()
    except CompileError as error:
        if config.check_schedules == "error":
            raise
        warnings.warn(str(error), RuntimeWarning, stacklevel=2)


def _assemble(
    kernel: Kernel, compilation: GpuCompilation, verdict: Verdict, target: CudaTarget, debug: bool
) -> Built:
    check_memory(compilation.shared.plan, target.shared_per_block, target.arch)
    _check_registers(compilation.layouts)
    code = lower_kernel(kernel, compilation, target, debug, config.line_info)
    scheduled = verdict.status != NO_SCHEDULE
    require = partial(require_emitted, kernel=kernel) if scheduled else None
    code_object = assembled(
        code.text, target, code.occupancy_threads, require, code.cta_bytes, code.tile_registers
    )
    if not code_object.is_ptx:
        code.check_registers(code_object.registers)
    return Built(code, code_object, verdict, compilation.schedule)


def _check_registers(layouts: Layouts) -> None:
    """Raise TileTooLarge for a tile of which a thread has more than MAX_ELEMENTS_OF_THREAD elements."""
    for tile, layout in layouts.items():
        if isinstance(tile.type, TileType) and layout.register_count > MAX_ELEMENTS_OF_THREAD:
            assert isinstance(tile.owner, Op)
            raise TileTooLarge(
                tile.owner.loc,
                what="a thread's part of a tile",
                shape=tile.type.shape,
                size=f"{layout.register_count:,}",
                limit=MAX_ELEMENTS_OF_THREAD,
                help='use more threads for a block, a smaller shape, or storage="shared"',
            )
