"""Launches that overlap: the blocks of a kernel start while the last ones of the kernel before are at work.

A kernel tells the hardware at its start that the next one may come where there is room. What the next one does before
it waits, as making its barriers, costs no time then. The wait ends when all launches before are complete and what they
wrote is visible. Every kernel waits, also one that reads nothing: whoever waits for it has waited for all."""

from __future__ import annotations

from collections.abc import Callable

from tegula.codegen.gpu.state import GpuState
from tegula.ir import Op
from tegula.ops.array import ArrayShape, ArrayView
from tegula.ops.control import Yield
from tegula.types import ArrayType


def in_order_of_launches(s: GpuState, act: Callable[[Op], None]) -> None:
    """The kernel, op by op. It waits for the results of the launches before as late as it can: when memory of arrays,
    or what may use it, comes."""
    waited = not s.gpu.overlaps_launches
    if not waited:
        start_next_launch(s)
    for op in s.kernel.body.ops:
        if not waited and (touches_arrays(op) or isinstance(op, Yield)):
            wait_for_last_launch(s)
            waited = True
        if not isinstance(op, Yield):
            act(op)


def start_next_launch(s: GpuState) -> None:
    """The next launch of the stream may start when all blocks of this one have come here, or have ended."""
    s.code.line('call void asm sideeffect "griddepcontrol.launch_dependents;", ""()')


def wait_for_last_launch(s: GpuState) -> None:
    """All launches before are complete, and their results can be seen."""
    s.code.line('call void asm sideeffect "griddepcontrol.wait;", "~{memory}"()')


def touches_arrays(op: Op) -> bool:
    """Whether an op may read or write memory of arrays, itself or in its regions."""
    if isinstance(op, ArrayView | ArrayShape):
        return False
    return bool(op.regions) or any(isinstance(v.type, ArrayType) for v in op.operands)
