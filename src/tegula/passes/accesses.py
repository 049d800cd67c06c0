"""Which element accesses of different lanes may be to the same bytes of a tile, so that their order counts.

Two accesses are independent only if that is proved for all lanes, for all iterations of the loops that lanes run on
their own, and for all places that views show then. Everything else is a conflict."""

from __future__ import annotations

from collections.abc import Iterator

from tegula.dataclass import dataclass
from tegula.ir import Op, Region, Value
from tegula.ops.base import TileOp
from tegula.ops.buffer import (
    BufExchange,
    BufGet,
    BufSet,
    BufUpdate,
    buffer_type,
    combination,
    commute,
    root,
)
from tegula.ops.control import For, While
from tegula.ops.integer_ranges import IntegerRanges
from tegula.ops.lane import Lanes
from tegula.ops.scalar import Add, Const, Mul, Sub
from tegula.passes.element_places import Scope
from tegula.passes.inequalities import Form, below, constant, impossible, plus
from tegula.passes.uniformity import Uniformity


@dataclass(frozen=True, slots=True)
class Access:
    """One element access of a buffer: `kind` read, write or atomic."""

    op: TileOp
    kind: str
    buffer: Value
    index: tuple[Value, ...]


def accesses(op: Op) -> Iterator[Access]:
    """The element accesses of an op and those nested in it."""
    for inner in op.walk():
        if isinstance(inner, BufGet):
            yield Access(inner, "read", inner.operands[0], tuple(inner.operands[1:]))
        elif isinstance(inner, BufSet | BufUpdate | BufExchange):
            kind = "atomic" if isinstance(inner, BufUpdate) else "write"
            yield Access(inner, kind, inner.operands[0], tuple(inner.operands[2:]))


class Independence:
    """Decides on the accesses of one kernel. `known`: what differs between its lanes."""

    def __init__(self, known: Uniformity) -> None:
        self.known = known
        self.ranges = IntegerRanges(known.launch)
        self.scopes: dict[tuple[Region, Region], Scope] = {}

    def conflict(self, a: Access, b: Access, region: Region) -> bool:
        """Whether different lanes may do two different accesses of one run of `region` to the same bytes, in an order
        that counts. The region is one that the block runs as one."""
        return _order_counts(a, b) and not self._apart(a, b, self._scope(region, region), [])

    def conflicts_inside(self, op: Op) -> Iterator[tuple[Access, Access]]:
        """The pairs that conflict where each lane runs `op` from its start to its end on its own; an access with
        itself where different iterations of a loop may meet."""
        assert op.parent is not None
        inside = list(accesses(op))
        for k, a in enumerate(inside):
            if self._meets_itself(a, op.parent):
                yield a, a
            for b in inside[k + 1 :]:
                if self.conflict(a, b, op.parent):
                    yield a, b

    def own_elements(self, op: Op) -> bool:
        """Whether different lanes that do an access at the same time, in the same iterations, do it to different
        elements. The access is in a `lanes` op."""
        assert op.parent is not None
        (access,), outer = accesses(op), op
        while not isinstance(outer, Lanes):
            assert outer.parent is not None and outer.parent.parent is not None
            outer = outer.parent.parent
        assert outer.parent is not None
        return self._apart(access, access, self._scope(op.parent, outer.parent), [])

    def _meets_itself(self, a: Access, together: Region) -> bool:
        """Whether different lanes may do an access to the same bytes in different iterations. They are in the same ones
        of the loops around the outermost that they are in different iterations of."""
        if not _order_counts(a, a):
            return False
        region, loops = a.op.parent, list[Op]()
        while region is not None and region is not together and region.parent is not None:
            if isinstance(region.parent, For | While):
                loops.append(region.parent)
            region = region.parent.parent
        for loop in loops:
            assert loop.parent is not None
            scope = self._scope(loop.parent, together)
            first, second = scope.a.iteration(loop), scope.b.iteration(loop)
            for later in (below(first, second), below(second, first)):
                if not self._apart(a, a, scope, [later]):
                    return True
        return False

    def _scope(self, region: Region, together: Region) -> Scope:
        if (region, together) not in self.scopes:
            self.scopes[region, together] = Scope(region, together, self.known, self.ranges)
        return self.scopes[region, together]

    def _apart(self, a: Access, b: Access, scope: Scope, more: list[Form]) -> bool:
        """Whether no two lanes of a scope are at one element, wherever `more` is 0 or more."""
        (first, inside), (second, other) = scope.a.place(*_element(a)), scope.b.place(*_element(b))
        same = [plus(x, y, -1) for x, y in zip(first, second, strict=True)]
        same += self._same_component(a, b, scope)
        same += list(scope.mutual(same))
        if impossible(same, ()):
            return True
        rest = [*more, *inside, *other, *scope.a.guards(a.op), *scope.b.guards(b.op)]
        facts = scope.facts_of([*same, *rest])
        same += [form for f in facts for form in f.equal]
        rest += [form for f in facts for form in f.nonnegative]
        one, another = scope.a.lane, scope.b.lane
        bounds = [f for form in (one, another) for fact in scope.facts_of([form]) for f in fact.nonnegative]
        return all(
            impossible(same, [*rest, *bounds, *case, lanes])
            for lanes in (below(one, another), below(another, one))
            for case in scope.possible_cases(facts)
        )

    def _same_component(self, a: Access, b: Access, scope: Scope) -> Iterator[Form]:
        """Indices of components, if constant: those are inside, and outside reading would give the last component."""
        rank = len(buffer_type(a.buffer.type).shape)
        same_type = buffer_type(a.buffer.type).dtype == buffer_type(b.buffer.type).dtype
        for x, y in zip(a.index[rank:], b.index[len(buffer_type(b.buffer.type).shape) :], strict=False):
            bounds = [self.ranges.of(v) for v in (x, y)]
            if same_type and all(low == high for low, high in bounds):
                yield constant(bounds[0][0] - bounds[1][0])


def _element(access: Access) -> tuple[Value, tuple[Value, ...]]:
    """Buffer and indices, without those of components."""
    return access.buffer, access.index[: len(buffer_type(access.buffer.type).shape)]


def _order_counts(a: Access, b: Access) -> bool:
    """Whether accesses of one element give something else in another order."""
    if root(a.buffer) is not root(b.buffer) or a.kind == b.kind == "read":
        return False
    return not (a.kind == b.kind == "atomic" and commute(combination(a.op), combination(b.op)))


# Linear forms --------------------------------------------------------------------------------------------------------


def linear(value: Value) -> tuple[dict[Value, int], int]:
    """value = sum of coefficient * term + constant."""
    owner = value.owner
    if isinstance(owner, Const) and isinstance(owner.attrs["value"], int):
        return {}, int(owner.attrs["value"])
    if isinstance(owner, Add | Sub):
        (terms, constant), (others, other) = (linear(v) for v in owner.operands)
        sign = 1 if isinstance(owner, Add) else -1
        total = dict(terms)
        for term, coefficient in others.items():
            total[term] = total.get(term, 0) + sign * coefficient
        return {t: c for t, c in total.items() if c}, constant + sign * other
    if isinstance(owner, Mul):
        for x, y in (owner.operands, reversed(owner.operands)):
            if isinstance(y.owner, Const):
                terms, constant = linear(x)
                factor = int(y.owner.attrs["value"])
                return {t: c * factor for t, c in terms.items()}, constant * factor
    return {value: 1}, 0
