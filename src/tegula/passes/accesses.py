"""Conflicts of element accesses: whether accesses of different lanes to the same bytes of a tile may depend on their
order.

Two accesses are independent only if independence is proved for all lanes, for all iterations of loops inside lane code,
and for all offsets of views. All other pairs conflict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tegula.dataclass import dataclass
from tegula.deferred import deferred_imports
from tegula.ir import ConstantLike, Op, Region, Value, root
from tegula.ops.buffer import BufExchange, BufGet, BufSet, BufUpdate, buffer_type, combination, commute
from tegula.ops.control import For, While
from tegula.ops.integer_ranges import IntegerRanges
from tegula.ops.lane import Lanes
from tegula.ops.scalar import Add, Mul, Sub
from tegula.passes.inequalities import (
    Form,
    are_infeasible,
    constant,
    is_infeasible,
    less_than,
    plus,
    substitute,
)
from tegula.passes.uniformity import Uniformity

with deferred_imports():
    from tegula.passes.element_indices import LanePairScope

if TYPE_CHECKING:
    from tegula.passes.element_indices import LaneSide


@dataclass(frozen=True, slots=True)
class BufferAccess:
    """One element access of a buffer: `kind` read, write or atomic."""

    op: Op
    kind: str
    buffer: Value
    index: tuple[Value, ...]

    @property
    def element(self) -> tuple[Value, ...]:
        """The indices of the element, without indices of a component of the element."""
        return self.index[: len(buffer_type(self.buffer.type).shape)]

    @property
    def deduplication_key(self) -> object:
        """A key for the deduplication of unrolled accesses: accesses with equal keys conflict with the same
        accesses."""
        index = tuple(v.owner.value if isinstance(v.owner, ConstantLike) else v for v in self.index)
        operation = combination(self.op) if self.kind == "atomic" else ""
        return self.kind, type(self.op), operation, self.op.parent, self.buffer, index


def accesses(op: Op) -> Iterator[BufferAccess]:
    """The element accesses of an op and of its nested ops."""
    for inner in op.walk():
        if isinstance(inner, BufGet):
            yield BufferAccess(inner, "read", inner.buffer, tuple(inner.indices))
        elif isinstance(inner, BufSet | BufUpdate | BufExchange):
            kind = "atomic" if isinstance(inner, BufUpdate) else "write"
            yield BufferAccess(inner, kind, inner.buffer, tuple(inner.indices))


@dataclass(frozen=True, slots=True)
class ResolvedAccess:
    """An access with its index resolved through views to the object, by a thread of one side of a scope. `index`: one
    form for each dimension; `guards`: forms that are non-negative at the access; `thread`: the index of the thread, or
    of its warp."""

    index: list[Form]
    guards: list[Form]
    thread: Form


class Independence:
    """Proves accesses of one kernel independent. `known`: the uniformity of the kernel's values."""

    def __init__(self, known: Uniformity) -> None:
        self.known = known
        self.ranges = IntegerRanges(known.launch)
        self.scopes: dict[tuple[Region, Region], LanePairScope] = {}

    def conflict(self, a: BufferAccess, b: BufferAccess, region: Region) -> bool:
        """Whether two accesses of different lanes in one run of `region`, which all lanes run in lockstep, may
        conflict."""
        return _order_matters(a, b) and not self._never_equal(a, b, self._scope(region, region), [])

    def conflicts_inside(self, op: Op) -> Iterator[tuple[BufferAccess, BufferAccess]]:
        """The conflicts if each lane runs `op` from start to end independently; an access conflicts with itself if
        different iterations of a loop may access one element."""
        assert op.parent is not None
        inside = list(accesses(op))
        for k, a in enumerate(inside):
            if self._conflicts_with_itself(a, op.parent):
                yield a, a
            for b in inside[k + 1 :]:
                if self.conflict(a, b, op.parent):
                    yield a, b

    def record_result(self, value: Value, yielded: Value) -> None:
        """Record that a value is now the result of a `lanes` op whose body yields `yielded`."""
        for scope in self.scopes.values():
            for side in (scope.a, scope.b):
                if value in side.forms:
                    side.forms[yielded] = side.forms[value]

    def lanes_are_disjoint(self, op: Op) -> bool:
        """Whether an access of a `lanes` op accesses different elements in different lanes, in the same iterations."""
        assert op.parent is not None
        (access,), outer = accesses(op), op
        while not isinstance(outer, Lanes):
            assert outer.parent is not None and outer.parent.parent is not None
            outer = outer.parent.parent
        assert outer.parent is not None
        return self._never_equal(access, access, self._scope(op.parent, outer.parent), [])

    def _conflicts_with_itself(self, a: BufferAccess, lockstep_region: Region) -> bool:
        """Whether one access in different iterations of different lanes may conflict with itself. Each loop is tried as
        the outermost loop whose iterations differ; the lane in the earlier iteration is called "a"."""
        if not _order_matters(a, a):
            return False
        region, loops = a.op.parent, list[Op]()
        while region is not None and region is not lockstep_region and region.parent is not None:
            if isinstance(region.parent, For | While):
                loops.append(region.parent)
            region = region.parent.parent
        for loop in loops:
            assert loop.parent is not None
            scope = self._scope(loop.parent, lockstep_region)
            later = less_than(scope.a.iteration(loop), scope.b.iteration(loop))
            if not self._never_equal(a, a, scope, [later]):
                return True
        return False

    def _scope(self, region: Region, lockstep_region: Region) -> LanePairScope:
        if (region, lockstep_region) not in self.scopes:
            self.scopes[region, lockstep_region] = LanePairScope(
                region, lockstep_region, self.known, self.ranges
            )
        return self.scopes[region, lockstep_region]

    def _never_equal(
        self, a: BufferAccess, b: BufferAccess, scope: LanePairScope, assumptions: list[Form]
    ) -> bool:
        """Whether no two lanes of a scope access one element, given that the forms `assumptions` are non-negative."""
        first, second = resolve_access(a, scope.a), resolve_access(b, scope.b)
        return never_overlap(scope, first, second, [*self._same_component(a, b, scope)], assumptions)

    def _same_component(self, a: BufferAccess, b: BufferAccess, scope: LanePairScope) -> Iterator[Form]:
        """Indices of components if they are constant, and thus in bounds; other indices are clamped to the last
        component."""
        rank = len(buffer_type(a.buffer.type).shape)
        same_type = buffer_type(a.buffer.type).dtype == buffer_type(b.buffer.type).dtype
        for x, y in zip(a.index[rank:], b.index[len(buffer_type(b.buffer.type).shape) :], strict=False):
            bounds = [self.ranges.of(v) for v in (x, y)]
            if same_type and all(low == high for low, high in bounds):
                yield constant(bounds[0][0] - bounds[1][0])


def resolve_access(a: BufferAccess, side: LaneSide, threads: int = 1) -> ResolvedAccess:
    """The access of a lane, with its index in the object. `threads`: the size of the groups of threads that count as
    one thread: 1, or the size of a warp."""
    at, inside = side.place(a.buffer, [side.form(v) for v in a.element])
    return ResolvedAccess(at, [*inside, *side.guards(a.op)], side.group(side.lane, threads))


def never_overlap(
    scope: LanePairScope,
    x: ResolvedAccess,
    y: ResolvedAccess,
    equal: Sequence[Form],
    assumptions: Sequence[Form] = (),
) -> bool:
    """Whether different threads (or warps) never access one element of an object, given that the forms `assumptions`
    are non-negative. `equal`: further forms that are 0 if the threads access one element."""
    same = [*(plus(a, b, -1) for a, b in zip(x.index, y.index, strict=True)), *equal]
    same += list(scope.symmetric_forms(same))
    if is_infeasible(same, ()):
        return True
    rest = [*assumptions, *x.guards, *y.guards]
    facts = scope.facts_of([*same, *rest, x.thread, y.thread])
    rest += [form for f in facts for form in f.nonnegative]
    for numbers, forms in scope.possible_cases(facts):
        known = [substitute(form, numbers) for form in same]
        known += [*scope.symmetric_forms(known), *(form for f in facts for form in f.equal)]
        different = less_than(x.thread, y.thread), less_than(y.thread, x.thread)
        if not are_infeasible(known, [*rest, *forms], different):
            return False
    return True


def _order_matters(a: BufferAccess, b: BufferAccess) -> bool:
    """Whether the result of two accesses of one element depends on their order."""
    if root(a.buffer) is not root(b.buffer) or a.kind == b.kind == "read":
        return False
    return not (a.kind == b.kind == "atomic" and commute(combination(a.op), combination(b.op)))


# Linear forms --------------------------------------------------------------------------------------------------------


def linear(value: Value) -> tuple[dict[Value, int], int]:
    """The linear form of a value: the coefficient of each term, and the constant."""
    owner = value.owner
    if isinstance(owner, ConstantLike) and isinstance(owner.value, int):
        return {}, int(owner.value)
    if isinstance(owner, Add | Sub):
        (terms, constant), (other_terms, other_constant) = (linear(v) for v in owner.operands)
        sign = 1 if isinstance(owner, Add) else -1
        sums = dict(terms)
        for term, coefficient in other_terms.items():
            sums[term] = sums.get(term, 0) + sign * coefficient
        return {t: c for t, c in sums.items() if c}, constant + sign * other_constant
    if isinstance(owner, Mul):
        for x, y in ((owner.a, owner.b), (owner.b, owner.a)):
            if isinstance(y.owner, ConstantLike):
                terms, constant = linear(x)
                factor = int(y.owner.value)
                return {t: c * factor for t, c in terms.items()}, constant * factor
    return {value: 1}, 0
