"""Warp specialisation of kernels with matmuls: the pass, and the functions that decide whether a kernel may get
roles. Kernels without matmuls do not load the modules that make roles."""

from __future__ import annotations

from tegula.deferred import deferred_imports
from tegula.ir import Kernel
from tegula.ops.linear import TileMatmul
from tegula.passes.runner import GpuCompilation
from tegula.passes.specialise.schedule import BlockCosts, Choice, Schedule
from tegula.target import CudaTarget

with deferred_imports():
    from tegula.passes.specialise.make_roles import costs_of_blocks, roles_of_matmuls


def specialise(kernel: Kernel, context: GpuCompilation) -> None:
    """Rewrite the kernel in place and record its schedule. An earlier schedule is kept; debug mode gets no roles."""
    if context.selected is not None:
        context.schedule = context.selected
    elif context.debug:
        context.schedule = Schedule(reason="debug mode")
    else:
        context.schedule = make_roles(kernel, context.target)


def make_roles(kernel: Kernel, target: CudaTarget, choice: Choice | None = None) -> Schedule:
    """Rewrite the kernel in place (its objects are already values), or leave it unchanged with the reason in the
    schedule. Logical blocks have the size of the launch class if they get roles then; chains of matmuls are overlapped
    if registers allow it; iterations are split if whole iterations leave too few stages."""
    if not _has_matmuls(kernel):
        return Schedule(reason="the kernel has no matmul")
    return roles_of_matmuls(kernel, target, choice)


def block_costs(kernel: Kernel, target: CudaTarget) -> BlockCosts:
    """The costs of logical blocks of all sizes for a kernel before the passes for GPUs. The kernel is unchanged."""
    return costs_of_blocks(kernel, target) if _has_matmuls(kernel) else BlockCosts()


def _has_matmuls(kernel: Kernel) -> bool:
    return any(isinstance(op, TileMatmul) for op in kernel.walk())
