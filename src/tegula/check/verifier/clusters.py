"""Clusters of CTAs: a proof for one CTA also holds for a cluster of two CTAs that multicast tiles to each other, if
both perform the same operations on each other's barriers as on their own (docs/design/042-certificates.md, "Pairs")."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tegula.ir import ConstantLike, Kernel, Op, Value
from tegula.ops import scalar as S
from tegula.ops.array import ArrayLoad
from tegula.ops.control import For, If, While
from tegula.ops.lane import BlockCount, BlockIndex, LogicalBlocks, Tid
from tegula.ops.schedule import BulkLoad, ClusterEnd, ClusterPeer


class Clusters:
    """The values that are equal in both CTAs of a cluster. `pure`: a predicate of ops, true if the results are a
    function of the operands."""

    def __init__(self, kernel: Kernel, pure: Callable[[Op], bool]) -> None:
        self.kernel, self.pure = kernel, pure
        self.differing: set[Value] = set()
        """The values that may differ between the two CTAs: the least fixed point over all ops."""
        size = -1
        while size != len(self.differing):
            size = len(self.differing)
            for op in kernel.walk():
                self._propagate(op)

    def _propagate(self, op: Op) -> None:
        """Add the results of an op that may differ between the two CTAs."""
        if isinstance(op, For | While):
            if isinstance(op, For) and not {op.start, op.step}.isdisjoint(self.differing):
                self.differing.add(op.index)
            for k, v in enumerate(op.results):
                entries = [op.initial[k], op.body.yielded[k], *(entry[k] for entry in op.entries)]
                if not self.differing.isdisjoint(entries):
                    self.differing |= {op.arguments[k], v, *(entry[k] for entry in op.entries)}
            if isinstance(op, While):
                self.differing |= {
                    a for a, b in zip(op.condition.args, op.body.args, strict=True) if b in self.differing
                }
            if not self.is_equal_in_cluster(op):
                self.differing |= {*op.results, *op.arguments}
        elif isinstance(op, If):
            for k, v in enumerate(op.results):
                if op.condition in self.differing or any(r.yielded[k] in self.differing for r in op.regions):
                    self.differing.add(v)
        elif isinstance(op, LogicalBlocks):
            self.differing.add(op.first)  # the end and the step are equal in all blocks
        elif self._may_differ(op) or not self.differing.isdisjoint(op.operands):
            self.differing.update(op.results)

    def _may_differ(self, op: Op) -> bool:
        """Whether an op with equal operands may have a different result in the other CTA."""
        if isinstance(op, ArrayLoad):
            return not self.pure(op)
        return not op.PURE or op.VARYING or bool(op.regions) or isinstance(op, BlockIndex | Tid)

    def is_equal_in_cluster(self, op: Op) -> bool:
        """Whether both CTAs take the same side of a branch, or execute equal trip counts of a loop."""
        if isinstance(op, If):
            return op.condition not in self.differing
        if isinstance(op, While):
            return op.condition.yielded[0] not in self.differing
        assert isinstance(op, For)
        return self.differing.isdisjoint((op.start, op.stop, op.step)) or self.strides_by_cluster(op)

    def strides_by_cluster(self, op: For) -> bool:
        """Whether the induction variable of a loop has neighbouring values in the two CTAs, with an even step and an
        even end."""
        start, step = op.start.owner, op.step.owner
        if isinstance(start, LogicalBlocks) and isinstance(step, LogicalBlocks):
            is_strided = op.start is start.first and op.step is step.step
        else:
            is_strided = isinstance(start, BlockIndex) and isinstance(step, BlockCount)
        return is_strided and isinstance(op.stop.owner, ClusterEnd) and op.stop not in self.differing

    def multicast_problem(self, op: BulkLoad) -> str:
        """The reason why a tile may not be multicast between the CTAs; empty where it may."""
        assert op.both is not None
        equations = list(_equations(op.both))
        if not all(self._are_exchanged(a, b) for a, b in equations):
            return "the operands of a multicast copy may differ between the two CTAs of a cluster"
        known = {a for a, _ in equations}
        if not all(self._is_equal_given(v, known) for v in op.offset):
            return "the two CTAs of a cluster may multicast different tiles"
        return ""

    def _are_exchanged(self, own: Value, other: Value) -> bool:
        """Whether the value `own` in the peer CTA equals the value `other` in this CTA, and vice versa."""
        a, b = own.owner, other.owner
        if isinstance(b, ClusterPeer):
            loop = getattr(a, "parent", None)
            return (
                b.number is own
                and isinstance(loop, For)
                and own is loop.index
                and self.strides_by_cluster(loop)
            )
        if own is other:
            return own not in self.differing
        if not (isinstance(a, Op) and isinstance(b, Op) and not self._may_differ(a) and len(a.results) == 1):
            return False
        same_op = type(a) is type(b) and a.attrs == b.attrs and len(a.operands) == len(b.operands)
        return same_op and all(self._are_exchanged(x, y) for x, y in zip(a.operands, b.operands, strict=True))

    def _is_equal_given(self, v: Value, known: set[Value]) -> bool:
        """Whether a value is equal in both CTAs, given that the values of `known` are equal in both."""
        if v in known or v not in self.differing:
            return True
        op: Any = v.owner
        computed = isinstance(op, Op) and not self._may_differ(op) and bool(op.operands)
        return computed and all(self._is_equal_given(x, known) for x in op.operands)


def _equations(condition: Value) -> Iterator[tuple[Value, Value]]:
    """The pairs of values that a condition makes equal. A conjunct that is not an equation is paired with itself."""
    op = condition.owner
    if isinstance(op, S.And):
        for v in op.operands:
            yield from _equations(v)
    elif isinstance(op, S.Cmp) and op.pred == "eq":
        yield op.a, op.b
    elif not (isinstance(op, ConstantLike) and op.value is True):
        yield condition, condition
