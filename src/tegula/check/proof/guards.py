"""Guards that the prover requests: conditions that the host checks before a launch and that proofs may assume. A guard
is the condition of an assert, or a bound that keeps the arithmetic of trip counts within its type."""

from __future__ import annotations

from collections.abc import Iterator

from tegula.dataclass import dataclass
from tegula.ir import BranchLike, Kernel, Op, Region, Value
from tegula.ops import scalar as S
from tegula.ops.array import ArrayShape
from tegula.ops.control import For, While
from tegula.ops.convert import Cast
from tegula.ops.debug import Assert
from tegula.ops.lane import Lanes
from tegula.ops.roles import Roles
from tegula.types import DType

LARGEST = 2**28
"""The largest absolute value that a guard allows for an operand of a trip count."""


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition that a launch must satisfy. `kind`: the condition of an assert is true; a number "fits", between
    -LARGEST and LARGEST, computed in whole numbers; a "factor" is not negative."""

    kind: str
    value: Value


class Guards:
    """The guards that proofs of a kernel may assume."""

    def __init__(self, kernel: Kernel, counts: set[Op]) -> None:
        self.kernel = kernel
        self.bounds = set(_bounds(counts))
        self._of_launch: dict[Value, bool] = {}
        self.asserts = [
            Guard("assert", op.condition) for op in _asserts(kernel) if self.of_launch(op.condition)
        ]

    def of_launch(self, v: Value) -> bool:
        """Whether the host can compute a value: from parameters and shapes, by arithmetic."""
        if v not in self._of_launch:
            self._of_launch[v] = self._known(v)
        return self._of_launch[v]

    def _known(self, v: Value) -> bool:
        if not isinstance(v.type, DType) or v.type.is_float:
            return False
        if v in self.kernel.params:
            return True
        owner = v.owner
        if isinstance(owner, ArrayShape):
            return owner.array in self.kernel.params
        if isinstance(owner, BranchLike):
            ends = (region.yielded[owner.results.index(v)] for region in owner.alternatives)
            return all(map(self.of_launch, (*owner.decisive, *ends)))
        return isinstance(owner, ARITHMETIC) and all(map(self.of_launch, owner.operands))

    def computes(self, v: Value) -> list[Op]:
        """The ops on integers that compute a value, in order."""
        ops, cone = self.kernel.body.ops, {v}
        for op in reversed(ops):
            if not cone.isdisjoint(op.results):
                cone |= set(op.operands)

        def integers(op: Op) -> bool:
            return all(isinstance(x.type, DType) and x.type.is_int for x in (*op.operands, *op.results))

        return [
            op
            for op in ops
            if isinstance(op, ARITHMETIC)
            and not isinstance(op, S.Const)
            and op.result in cone
            and integers(op)
        ]

    def asked(self, v: Value) -> Iterator[Guard]:
        """The guards that keep a number of a trip count within its type."""
        if v not in self.bounds or not isinstance(v.owner, S.Add | S.Sub | S.Mul | S.Neg | Cast):
            return
        if self.of_launch(v):
            if isinstance(v.owner, S.Mul) and not any(isinstance(x.owner, S.Const) for x in v.owner.operands):
                yield from (Guard("factor", x) for x in v.owner.operands)
            yield Guard("fits", v)
            return
        yield from (Guard("fits", x) for x in self._sources(v))

    def _sources(self, v: Value) -> Iterator[Value]:
        """The inputs of the launch from which a number is computed, without constants."""
        if self.of_launch(v):
            if not isinstance(v.owner, S.Const):
                yield v
        elif isinstance(v.owner, ARITHMETIC):
            for x in v.owner.operands:
                yield from self._sources(x)
        elif isinstance(v.owner, Region) and isinstance(loop := v.owner.parent, For) and v is loop.index:
            for x in (loop.start, loop.stop):
                yield from self._sources(x)


ARITHMETIC = (
    S.Const, S.Add, S.Sub, S.Mul, S.Neg, S.Div, S.FloorDiv, S.Mod, S.Min, S.Max, S.Cmp, S.Select, S.And, S.Or, S.Xor,
    S.Not, S.Shl, S.Shr, Cast,
)  # fmt: skip


def _bounds(counts: set[Op]) -> Iterator[Value]:
    """The values from which the trip counts of loops are computed."""
    queue = [v for op in counts if isinstance(op, For) for v in op.bounds]
    queue += [v for op in counts if isinstance(op, While) for v in op.condition.yielded]
    found: set[Value] = set()
    while queue:
        v = queue.pop()
        if v in found:
            continue
        found.add(v)
        yield v
        if isinstance(v.owner, ARITHMETIC) and (not isinstance(v.owner, S.Cmp) or _varies(v)):
            queue.extend(v.owner.operands)
        loop = v.owner.parent if isinstance(v.owner, Region) else v.owner
        if isinstance(loop, For | While):
            rows = zip(loop.results, loop.initial, loop.body.yielded, *loop.entries, strict=True)
            queue += [w for row in rows if v in row for w in row]


def _varies(v: Value) -> bool:
    """Whether a number depends on loop-carried values: a comparison of other numbers does not decide a trip count."""
    if isinstance(v.owner, Region):
        return isinstance(v.owner.parent, For | While)
    return isinstance(v.owner, ARITHMETIC) and any(map(_varies, v.owner.operands))


def _asserts(kernel: Kernel) -> Iterator[Assert]:
    """The asserts of a kernel that all threads reach before roles begin."""
    for op in kernel.body.ops:
        if isinstance(op, Roles):
            return
        if isinstance(op, Assert):
            yield op
        elif isinstance(op, Lanes):
            yield from (o for o in op.regions[0].ops if isinstance(o, Assert))
