"""Finds additions of gradients whose order is not fixed."""

from __future__ import annotations

from tegula.ir import AtomicUpdate, Kernel, Op, ScatteredAccess, UnnamedUpdate, Value
from tegula.ops.array import ArrayAtomic
from tegula.ops.buffer import BufUpdate
from tegula.ops.control import If
from tegula.ops.lane import LaneIndex, Tid
from tegula.ops.scalar import And, Cmp
from tegula.ops.tile import TileAtomic


def find_block_conflict(kernel: Kernel) -> Op | None:
    """An op by which several blocks may add to one element; None if there is none."""
    for op in kernel.walk():
        if (
            isinstance(op, ArrayAtomic | UnnamedUpdate)
            or (isinstance(op, TileAtomic) and not op.exclusive)
            or _scatters(op)
        ):
            return op
    return None


def _scatters(op: Op) -> bool:
    """Whether an op updates elements of an array at coordinates, several of which may be equal."""
    return isinstance(op, ScatteredAccess) and isinstance(op, AtomicUpdate)


def find_lane_conflict(kernel: Kernel) -> Op | None:
    """An op by which several lanes of a block may add to one element; None if there is none."""
    for op in kernel.walk():
        if (
            isinstance(op, ArrayAtomic | BufUpdate | UnnamedUpdate) and not runs_in_one_lane(op)
        ) or _scatters(op):
            return op
    return None


def runs_in_one_lane(op: Op) -> bool:
    """Whether an op runs in at most one lane, because an enclosing condition compares a lane index for equality."""
    at = op.parent
    while at is not None and at.parent is not None:
        outer = at.parent
        if isinstance(outer, If) and at is outer.then and _selects_lane(outer.condition):
            return True
        at = outer.parent
    return False


def _selects_lane(condition: Value) -> bool:
    owner = condition.owner
    if isinstance(owner, And):
        return any(_selects_lane(v) for v in owner.operands)
    if not isinstance(owner, Cmp) or owner.pred != "eq":
        return False
    return any(isinstance(v.owner, Tid | LaneIndex) for v in owner.operands)
