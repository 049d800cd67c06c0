"""Guards that the prover requests: conditions that the host checks before a launch and that proofs may assume. A guard
is the condition of an assert, or a bound that keeps the arithmetic of trip counts within its type."""

from __future__ import annotations

from collections.abc import Iterator

from tegula.check.scheduled import COMPUTED, OfLaunch, asserts
from tegula.dataclass import dataclass
from tegula.ir import ConstantLike, Kernel, Op, Region, Value
from tegula.ops import scalar as S
from tegula.ops.control import For, While
from tegula.ops.convert import Cast


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition that a launch must satisfy. `kind`: "assert", the condition of an assert is true; "fits", an integer
    is between -MAX_BOUND and MAX_BOUND, computed without overflow; "factor", an integer is not negative."""

    kind: str
    value: Value


class Guards:
    """The guards that proofs of a kernel may assume."""

    def __init__(self, kernel: Kernel, counts: set[Op]) -> None:
        self.kernel = kernel
        self.bounds = set(_bounds(counts))
        self.of_launch = OfLaunch(kernel)
        self.asserts = [
            Guard("assert", op.condition) for op in asserts(kernel) if self.of_launch(op.condition)
        ]

    def requested(self, v: Value) -> Iterator[Guard]:
        """The guards that keep the arithmetic of a trip count within its type."""
        if v not in self.bounds or not isinstance(v.owner, S.Add | S.Sub | S.Mul | S.Neg | Cast):
            return
        if self.of_launch(v):
            if isinstance(v.owner, S.Mul) and not any(
                isinstance(x.owner, ConstantLike) for x in v.owner.operands
            ):
                yield from (Guard("factor", x) for x in v.owner.operands)
            yield Guard("fits", v)
            return
        yield from (Guard("fits", x) for x in self._sources(v))

    def _sources(self, v: Value) -> Iterator[Value]:
        """The numbers of the launch, without constants, from which a value is computed, also by earlier iterations of
        loops."""
        queue, visited = [v], {v}
        while queue:
            v = queue.pop(0)
            loop = v.owner.parent if isinstance(v.owner, Region) else v.owner
            inputs: list[Value] = []
            if self.of_launch(v):
                if not isinstance(v.owner, ConstantLike):
                    yield v
            elif isinstance(v.owner, COMPUTED):
                inputs = [*v.owner.operands]
            elif isinstance(loop, For) and v is loop.index:
                inputs = [loop.start, loop.stop]
            elif isinstance(loop, For | While):
                inputs = _inputs(loop, v)
            queue += [x for x in dict.fromkeys(inputs) if x not in visited]
            visited.update(inputs)


def _inputs(loop: For | While, v: Value) -> list[Value]:
    """The values that a number which a loop carries has before the loop and after an iteration."""
    rows = zip(loop.results, loop.initial, loop.body.yielded, *loop.entries, strict=True)
    return [w for row in rows if v in row for w in row]


def _bounds(counts: set[Op]) -> Iterator[Value]:
    """The values from which the trip counts of loops are computed."""
    queue = [v for op in counts if isinstance(op, For) for v in op.bounds]
    queue += [v for op in counts if isinstance(op, While) for v in op.condition.yielded]
    bounds: set[Value] = set()
    while queue:
        v = queue.pop()
        if v in bounds:
            continue
        bounds.add(v)
        yield v
        if isinstance(v.owner, COMPUTED) and (not isinstance(v.owner, S.Cmp) or _varies(v)):
            queue.extend(v.owner.operands)
        loop = v.owner.parent if isinstance(v.owner, Region) else v.owner
        if isinstance(loop, For | While):
            queue += _inputs(loop, v)


def _varies(v: Value) -> bool:
    """Whether a number depends on values that a loop carries; only comparisons of such numbers decide a trip count."""
    if isinstance(v.owner, Region):
        return isinstance(v.owner.parent, For | While)
    return isinstance(v.owner, COMPUTED) and any(map(_varies, v.owner.operands))
