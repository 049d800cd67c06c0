"""Computes the transpose of a matmul from transposed operands.

The adjoint of `q @ k.T` by `k` is the transpose of `q.T @ g`. A transpose of the result moves float32 elements through
shared memory; a transpose of `g` moves elements of the operand's narrower type, and `q` is not transposed at all."""

from __future__ import annotations

from tegula.ir import Kernel, Op, Value
from tegula.ir.rewrite import erase_dead, replace, uses
from tegula.ops.linear import matmul_from_zeros
from tegula.passes.specialise.find_matmuls import transposes
from tegula.types import TileType


def transpose_operands(kernel: Kernel) -> None:
    """Rewrite, in place, the transposes of matmuls with an operand that is a transpose already."""
    users, replacements = uses(kernel.body), dict[Value, Value]()
    for op in list(kernel.walk()):
        if not transposes(op):
            continue
        matmul = matmul_from_zeros(op.tile)
        if matmul is None or len(users[op.tile]) > 1 or not any(transposes(v.owner) for v in matmul.sides):
            continue
        region, zeros, t = op.parent, matmul.c.owner, op.result.type
        assert region is not None and isinstance(zeros, Op) and isinstance(t, TileType)
        new: list[Op] = []
        sides: list[Value] = []
        for side in reversed(matmul.sides):
            if transposes(side.owner):
                sides.append(side.owner.tile)
            else:
                new.append(type(op).typed([side], op.attrs, (), matmul.loc))
                sides.append(new[-1].results[0])
        new.append(type(zeros).typed(zeros.operands, {"shape": t.shape}, (), matmul.loc))
        operands = [*sides, new[-1].results[0], matmul.alpha, matmul.beta]
        new.append(type(matmul).typed(operands, matmul.attrs, (), matmul.loc))
        for new_op in new:
            new_op.parent = region
        at = region.ops.index(op)
        region.ops[at:at] = new
        replacements[op.result] = new[-1].results[0]
    if replacements:
        replace(kernel.body, replacements)
        erase_dead(kernel)
