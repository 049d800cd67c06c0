"""Launches that overlap: the blocks of a kernel start while the last ones of the kernel before are at work.

A kernel tells the hardware at its start that the next one may start where there is room. What the next one does before
it waits, as making its barriers, costs no time then. The wait ends when all launches before are complete and what they
wrote is visible. Every kernel waits, also one that reads nothing: whoever waits for it has waited for all.

Launches of an adjoint may wait at their end (`ir.LaunchOverlap`): that they have started says already that all they
depend on is complete. Only those do that read arrays by bulk copies alone, which find what is in the cache of all
multiprocessors; what is in that of one is renewed by waiting."""

from __future__ import annotations

from collections.abc import Callable

from tegula.codegen.gpu.state import GpuState
from tegula.ir import AT_ONCE, LOOPED, READ, WAITED, Kernel, Op
from tegula.ops.array import ArrayShape, ArrayView
from tegula.ops.control import Yield
from tegula.ops.schedule import BulkLoad, BulkStore
from tegula.types import ArrayType


def in_order_of_launches(s: GpuState, act: Callable[[Op], None]) -> None:
    """The kernel, op by op. It waits for the results of the launches before as late as it can: when memory of arrays,
    or what may use it, is reached."""
    waited, (_, lets) = not s.gpu.overlaps_launches, s.kernel.place
    late, loops = waits_at_end(s), [op for op in s.kernel.body.ops if op.regions]
    last = loops[-1] if lets == LOOPED and loops else None
    if not waited and (lets == AT_ONCE or lets == LOOPED and last is None):
        start_next_launch(s)
    for op in s.kernel.body.ops:
        if not waited and (isinstance(op, Yield) or (accesses_arrays(op) and not late)):
            wait_for_last_launch(s)
            if lets == WAITED:
                start_next_launch(s)
            waited = True
        if not isinstance(op, Yield):
            act(op)
        if op is last and s.gpu.overlaps_launches:
            start_next_launch(s)


def launch_next(s: GpuState, op: Op) -> None:
    """All that this block reads has arrived; the next launch may rely on those before this one too. Where no op says
    so, the next one may start when the block has ended."""
    if s.gpu.overlaps_launches and s.kernel.place.lets == READ and reads_by_copies(s.kernel):
        if waits_at_end(s):
            wait_for_last_launch(s)
        start_next_launch(s)


def waits_at_end(s: GpuState) -> bool:
    """Whether the kernel waits for the launch before it at its end only."""
    return s.kernel.place.late and reads_by_copies(s.kernel)


def start_next_launch(s: GpuState) -> None:
    """The next launch of the stream may start when all blocks of this one have arrived here, or have ended."""
    s.code.line('call void asm sideeffect "griddepcontrol.launch_dependents;", ""()')


def wait_for_last_launch(s: GpuState) -> None:
    """All launches before are complete, and their results can be seen."""
    s.code.line('call void asm sideeffect "griddepcontrol.wait;", "~{memory}"()')


def reads_by_copies(kernel: Kernel) -> bool:
    """Whether a kernel reads arrays by bulk copies and in no other way."""
    return all(
        isinstance(op, BulkLoad | BulkStore) or e.kind == "write"
        for op in kernel.walk()
        for e in op.effects()
        if e.value is not None and isinstance(e.value.type, ArrayType)
    )


def accesses_arrays(op: Op) -> bool:
    """Whether an op may read or write memory of arrays, itself or in its regions."""
    if isinstance(op, ArrayView | ArrayShape):
        return False
    return bool(op.regions) or any(isinstance(v.type, ArrayType) for v in op.operands)
