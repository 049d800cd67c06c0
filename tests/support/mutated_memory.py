"""Mutations of the shared memory of correct schedules."""

from __future__ import annotations

from typing import Any

from schedules import Mutation, chain, change, drop, gemm, insert_before, on_top, two_producers

from tegula.ir import Kernel, Op, Region
from tegula.ops import scalar as S
from tegula.ops.control import If, Yield
from tegula.ops.roles import Roles
from tegula.passes.runner import GpuCompilation
from tegula.types import bool_


def roles_of(kernel: Kernel) -> Op:
    return next(op for op in kernel.body.ops if isinstance(op, Roles))


def registers(*budgets: int) -> Mutation:
    """Register budgets that the language refuses."""

    def mutate(kernel: Kernel, compilation: GpuCompilation) -> None:
        roles_of(kernel).attrs["registers"] = budgets

    return mutate


def include_idle_warps(kernel: Kernel, compilation: GpuCompilation) -> None:
    """The first role includes the idle warps of its warp group."""
    roles = roles_of(kernel)
    (first, _), *others = roles.attrs["warps"]
    roles.attrs["warps"] = ((first, 4), *others)


def branch_around(name: str) -> Mutation:
    """Move the first op with this name in the last role into a branch that only some threads take."""

    def mutate(kernel: Kernel, compilation: GpuCompilation) -> None:
        op = next(op for op in roles_of(kernel).regions[-1].walk() if op.NAME == name)
        region = op.parent
        assert region is not None
        then_region, else_region = Region(), Region()
        flag = insert_before(op, S.Const([], [bool_], {"type": bool_, "value": True}))
        position = region.ops.index(op)
        branch = If([flag], [], None, [then_region, else_region], op.loc)
        branch.parent, region.ops[position] = region, branch
        then_region.append(op)
        for r in (then_region, else_region):
            r.append(Yield([], [], None, [], op.loc))
        compilation.uniformity.divergent.add(branch)

    return mutate


MEMORY_MUTATIONS: dict[str, tuple[Any, Mutation, str, str]] = {
    "2: idle warps join a role": (two_producers, include_idle_warps, "refuted", "budget"),
    "3: different budgets in one warp group": (two_producers, registers(24, 40, 240), "refuted", "budget"),
    "3: more registers than an SM has": (gemm, registers(240, 240), "refuted", "budget"),
    "3: a budget that is not a multiple of 8": (gemm, registers(24, 236), "refuted", "budget"),
    "10: barriers whose initialisation is not fenced": (gemm, drop("mbarrier.ready"), "refuted", "init"),
    "13: staging overlaps an operand": (gemm, on_top("staging", "left"), "refuted", "race"),
    "17: some threads of a role wait": (gemm, branch_around("mbarrier.wait"), "unproved", ""),
    "20: buffers of two roles overlap": (two_producers, on_top("right", "left"), "refuted", "race"),
    "21: an accumulator is read before the wait": (
        gemm,
        change("group.mma_wait", occurrence=1, pending=1),
        "refuted",
        "in-flight",
    ),
    "23: some threads of a role multiply": (chain, branch_around("group.mma"), "unproved", ""),
}
