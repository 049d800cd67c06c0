"""Replaces branches on the target of the compilation by the alternative of this target.

Library functions may have a program for GPUs and another one for CPUs. A kernel that is compiled for a launch has the
program of its device alone. In a kernel that is traced for all devices both are checked and differentiated, and the
target's pipeline begins with the choice."""

from __future__ import annotations

from tegula.ir import BranchLike, Kernel, Region, TargetQuery, Value
from tegula.ir.rewrite import replace
from tegula.ops.scalar import Const
from tegula.passes.runner import Compilation, GpuCompilation
from tegula.passes.simplify import simplify
from tegula.types import bool_


def choose_target(kernel: Kernel, context: Compilation) -> None:
    """Rewrite the kernel in place."""
    replaced: dict[Value, Value] = {}
    _choose(kernel.body, isinstance(context, GpuCompilation), replaced)
    if replaced:
        replace(kernel.body, replaced)
        simplify(kernel, context)


def _choose(region: Region, is_gpu: bool, replaced: dict[Value, Value]) -> None:
    before, region.ops = region.ops, []
    for op in before:
        for nested in op.regions:
            _choose(nested, is_gpu, replaced)
        if isinstance(op, TargetQuery):
            constant = Const.typed([], {"value": op.of_gpu == is_gpu, "type": bool_}, loc=op.loc)
            region.append(constant)
            replaced[op.result] = constant.result
            continue
        query = next((v.owner for v in op.control_operands), None) if isinstance(op, BranchLike) else None
        if not isinstance(op, BranchLike) or not isinstance(query, TargetQuery):
            region.append(op)
            continue
        then, otherwise = op.alternatives
        chosen = then if query.of_gpu == is_gpu else otherwise
        for inner in chosen.ops[:-1]:
            region.append(inner)
        replaced.update(zip(op.results, chosen.yielded, strict=True))
