"""Launches that overlap: the blocks of a kernel start while the last ones of the kernel before are at work.

A kernel tells the hardware at its start that the next one may come where there is room. What the next one does before
it waits, as making its barriers, costs no time then. The wait ends when all launches before are complete and what they
wrote is visible. Every kernel waits, also one that reads nothing: whoever waits for it has waited for all."""

from __future__ import annotations

from tegula.codegen.gpu.state import GpuState
from tegula.ir import Op
from tegula.ops.array import ArrayShape, ArrayView
from tegula.types import ArrayType


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
