"""Launches that overlap: the CTAs of a kernel start while the last CTAs of the preceding kernel are still running.

A kernel triggers at its start that the CTAs of the next launch may start as resources become free (programmatic
dependent launch). The prologue of the next kernel, such as the initialisation of barriers, then overlaps with this
launch. The wait ends when all preceding launches are complete and their writes are visible. Every kernel waits, even
one that reads nothing, so that a wait for one launch implies the completion of all launches before it.

Launches of an adjoint may wait at their end (`ir.LaunchOverlap`), because their start already implies that all their
dependences are complete. Only kernels that read arrays exclusively by bulk copies do so: bulk copies read the L2 cache,
whereas the L1 cache is only coherent after the wait."""

from __future__ import annotations

from collections.abc import Callable

from tegula.codegen.gpu.state import GpuState
from tegula.ir import AT_ONCE, LOOPED, READ, WAITED, Kernel, Op
from tegula.ops.array import ArrayShape, ArrayView
from tegula.ops.control import Yield
from tegula.ops.schedule import BulkLoad, BulkStore
from tegula.types import ArrayType


def in_order_of_launches(s: GpuState, act: Callable[[Op], None]) -> None:
    """Lower the kernel op by op. The wait for preceding launches is placed as late as possible: before the first op
    that may access memory of arrays."""
    waited, (_, next_starts) = not s.gpu.overlaps_launches, s.kernel.overlap
    waits_last, loops = waits_at_end(s), [op for op in s.kernel.body.ops if op.regions]
    last = loops[-1] if next_starts == LOOPED and loops else None
    if not waited and (next_starts == AT_ONCE or next_starts == LOOPED and last is None):
        start_next_launch(s)
    for op in s.kernel.body.ops:
        if not waited and (isinstance(op, Yield) or (accesses_arrays(op) and not waits_last)):
            wait_for_last_launch(s)
            if next_starts == WAITED:
                start_next_launch(s)
            waited = True
        if not isinstance(op, Yield):
            act(op)
        if op is last and s.gpu.overlaps_launches:
            start_next_launch(s)


def launch_next(s: GpuState, op: Op) -> None:
    """Lower `launch.next`: trigger the next launch after the last read of the block, so that the next launch may rely
    on the completion of earlier launches. Without this op the next launch starts at the end of the blocks."""
    if s.gpu.overlaps_launches and s.kernel.overlap.next_starts == READ and reads_by_copies(s.kernel):
        if waits_at_end(s):
            wait_for_last_launch(s)
        start_next_launch(s)


def waits_at_end(s: GpuState) -> bool:
    """Whether the kernel waits for the preceding launch only at its end."""
    return s.kernel.overlap.waits_at_end and reads_by_copies(s.kernel)


def start_next_launch(s: GpuState) -> None:
    """Let the next launch of the stream start once all CTAs of this launch have executed this instruction or ended."""
    s.code.line('call void asm sideeffect "griddepcontrol.launch_dependents;", ""()')


def wait_for_last_launch(s: GpuState) -> None:
    """Wait until all preceding launches are complete and their results are visible."""
    s.code.line('call void asm sideeffect "griddepcontrol.wait;", "~{memory}"()')


def reads_by_copies(kernel: Kernel) -> bool:
    """Whether a kernel reads arrays exclusively by bulk copies."""
    return all(
        isinstance(op, BulkLoad | BulkStore) or e.kind == "write"
        for op in kernel.walk()
        for e in op.effects()
        if e.value is not None and isinstance(e.value.type, ArrayType)
    )


def accesses_arrays(op: Op) -> bool:
    """Whether an op, or an op in its regions, may read or write memory of arrays."""
    if isinstance(op, ArrayView | ArrayShape):
        return False
    return bool(op.regions) or any(isinstance(v.type, ArrayType) for v in op.operands)
