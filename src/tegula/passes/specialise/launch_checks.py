"""Asserts about the launch alone, such as that a step given as an argument is not 0: they stand before the roles.

All threads of all blocks find the same there, so it does not matter which of them come to it first; what else a kernel
reports says which lane and block came, and keeps it from having roles."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.ir import Kernel, Op, Region, Value
from tegula.ops.array import ArrayShape
from tegula.ops.base import Elementwise
from tegula.ops.convert import Cast
from tegula.ops.debug import Assert
from tegula.ops.scalar import Const, Select
from tegula.rewrite import clone_op

OF_THE_LAUNCH = (ArrayShape, Cast, Const, Elementwise, Select)


def take_launch_checks(kernel: Kernel) -> list[Op]:
    """Take the asserts that the kernel comes to in any case, and that depend on its arguments alone, out of its body;
    copies of them and of what they ask."""
    known: set[Value] = set(kernel.params)
    taken: list[Op] = []
    for op in kernel.body.ops:
        if isinstance(op, OF_THE_LAUNCH) and known.issuperset(op.operands):
            known.update(op.results)
        elif isinstance(op, Assert) and known.issuperset(op.operands):
            taken.append(op)
    made, copies = Region(), dict[Value, Value]()
    for op in _asked(kernel.body.ops, taken):
        made.append(clone_op(op, copies))
    kernel.body.ops = [op for op in kernel.body.ops if op not in taken]
    return made.ops


def _asked(ops: Sequence[Op], taken: Sequence[Op]) -> list[Op]:
    """The asserts and what they are computed from, in the order of the body."""
    needed = set(taken)
    for op in reversed(ops):
        if op in needed:
            needed.update(v.owner for v in op.operands if isinstance(v.owner, Op))
    return [op for op in ops if op in needed]


__all__ = ["take_launch_checks"]
