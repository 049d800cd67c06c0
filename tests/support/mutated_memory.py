"""Mutations of the shared memory of correct schedules."""

from __future__ import annotations

from typing import Any

from schedules import Mutation, chain, change, drop, gemm, on_top, put_before, two_producers

from tegula.ir import Kernel, Op, Region
from tegula.ops import scalar as S
from tegula.ops.control import If, Yield
from tegula.ops.roles import Roles
from tegula.passes.runner import GpuCompilation
from tegula.types import bool_


def roles_of(kernel: Kernel) -> Op:
    return next(op for op in kernel.body.ops if isinstance(op, Roles))


def registers(*budgets: int) -> Mutation:
    """Register budgets that the language does not allow."""

    def mutate(kernel: Kernel, parts: GpuCompilation) -> None:
        roles_of(kernel).attrs["registers"] = budgets

    return mutate


def widened(kernel: Kernel, parts: GpuCompilation) -> None:
    """The idle warps of the first role's warp group join the role."""
    roles = roles_of(kernel)
    (first, _), *others = roles.attrs["warps"]
    roles.attrs["warps"] = ((first, 4), *others)


def branch_around(name: str) -> Mutation:
    """The first op of that name in the last role is in a branch that only some threads of a role take."""

    def mutate(kernel: Kernel, parts: GpuCompilation) -> None:
        op = next(op for op in roles_of(kernel).regions[-1].walk() if op.NAME == name)
        region = op.parent
        assert region is not None
        inside, else_region = Region(), Region()
        flag = put_before(op, S.Const([], [bool_], {"type": bool_, "value": True}))
        position = region.ops.index(op)
        branch = If([flag], [], None, [inside, else_region], op.loc)
        branch.parent, region.ops[position] = region, branch
        inside.append(op)
        for r in (inside, else_region):
            r.append(Yield([], [], None, [], op.loc))
        parts.uniformity.divergent.add(branch)

    return mutate


IN_MEMORY: dict[str, tuple[Any, Mutation, str, str]] = {
    "2: padding warps fall into a role": (two_producers, widened, "refuted", "budget"),
    "3: registers of part of a warp group": (two_producers, registers(24, 40, 240), "refuted", "budget"),
    "3: more registers than there are": (gemm, registers(240, 240), "refuted", "budget"),
    "3: a budget that is not a multiple of 8": (gemm, registers(24, 236), "refuted", "budget"),
    "10: barriers that nobody has fenced": (gemm, drop("mbarrier.ready"), "refuted", "init"),
    "13: staging in the bytes of an operand": (gemm, on_top("staging", "left"), "refuted", "race"),
    "17: some threads of a role wait": (gemm, branch_around("mbarrier.wait"), "unproved", ""),
    "20: buffers of two roles at one address": (two_producers, on_top("right", "left"), "refuted", "race"),
    "21: a sum is read before the wait": (
        gemm,
        change("group.mma_wait", occurrence=1, pending=1),
        "refuted",
        "in-flight",
    ),
    "23: some threads of a role multiply": (chain, branch_around("group.mma"), "unproved", ""),
}
