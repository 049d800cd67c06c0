"""The scope in which two accesses of an object in shared memory may conflict: one thread, one warp or the whole group.

For each access separately, the analysis proves that thread (or warp) k accesses only window k of the object: all
windows have the same length along some dimension, and window k starts at k times this length. Two accesses with windows
of the same length along the same dimension access disjoint elements if they are by different threads (or warps).
Without a proof the scope is the whole group."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from math import prod

from tegula.ir import Kernel, Op, Region, Value, root
from tegula.layout import Layout
from tegula.ops.buffer import buffer_type
from tegula.ops.integer_ranges import IntegerRanges
from tegula.ops.roles import WARP
from tegula.passes.accesses import BufferAccess, PlacedAccess, accesses, placed
from tegula.passes.element_indices import LanePairScope, LaneSide, row_major
from tegula.passes.groups import role_of
from tegula.passes.inequalities import Form, constant, is_infeasible, less_than, plus
from tegula.passes.uniformity import Uniformity

MAX_ACCESSES = 200
"""The maximum number of analysed accesses of a kernel; all other accesses have the group as their scope."""


class Reached(IntEnum):
    """The scope of threads that may access a common element through two accesses."""

    THREAD = 0
    WARP = 1
    GROUP = 2


class TilePart:
    """An access by which each thread reads or writes the elements of a buffer that correspond to its registers of a
    tile."""

    def __init__(self, buffer: Value, layout: Layout, writes: bool) -> None:
        self.buffer, self.layout, self.writes = buffer, layout, writes
        self.key = buffer, layout, writes


class LanePart:
    """A lane's access of an element."""

    def __init__(self, access: BufferAccess) -> None:
        self.access, self.buffer = access, access.buffer
        self.key = access.deduplication_key


Part = TilePart | LanePart


def lane_parts(op: Op) -> Iterator[tuple[str, LanePart]]:
    """The accesses of an op's lanes, each with its kind; one represents all accesses with the same conflicts."""
    accesses_by_place = {a.deduplication_key: a for a in accesses(op)}
    yield from ((a.kind, LanePart(a)) for a in accesses_by_place.values())


Window = tuple[int, int]
"""A dimension (the rank stands for the row-major order) and the length of each thread's or warp's window along the
dimension."""


class AccessReach:
    """Proves the scope of conflicts between accesses of one kernel."""

    def __init__(self, kernel: Kernel, known: Uniformity) -> None:
        self.kernel, self.known = kernel, known
        self.ranges = IntegerRanges(kernel.launch)
        self.scopes: dict[Region, LanePairScope] = {}
        self.windows: dict[object, dict[Reached, set[Window]]] = {}

    def of(self, a: Part, b: Part, at: Op) -> Reached:
        """The scope of conflicts between two accesses by the group of the op `at`."""
        if root(a.buffer) is not root(b.buffer):
            return Reached.GROUP
        first, second = self._windows(a, at), self._windows(b, at)
        return next((r for r in first if first[r] & second.get(r, set())), Reached.GROUP)

    def _windows(self, part: Part, at: Op) -> dict[Reached, set[Window]]:
        if part.key not in self.windows:
            scope, many = self._scope(at), len(self.windows) >= MAX_ACCESSES
            self.windows[part.key] = (
                {}
                if many
                else {
                    reached: set(_proved(part, scope.a, threads))
                    for reached, threads in ((Reached.THREAD, 1), (Reached.WARP, WARP))
                }
            )
        return self.windows[part.key]

    def _scope(self, at: Op) -> LanePairScope:
        region = role_of(at) or self.kernel.body
        if region not in self.scopes:
            self.scopes[region] = LanePairScope(region, region, self.known, self.ranges)
        return self.scopes[region]


def _proved(part: Part, side: LaneSide, threads: int) -> Iterator[Window]:
    """At most one proved window along each dimension, and one in row-major order."""
    indices, shape = _placed(part, side, threads), buffer_type(root(part.buffer).type).shape
    groups = -(-side.scope.lanes() // threads)
    lines = [*zip(indices.at, shape, strict=True)]
    if len(shape) > 1:
        lines.append((row_major(indices.at, shape), prod(shape)))
    for dim, (at, extent) in enumerate(lines):
        steps = {abs(n) * threads for atom, n in at[0].items() if atom in side.lane[0]} or {threads}
        lengths = dict.fromkeys([-(-extent // groups), *steps])
        if extent > 1:
            yield from [(dim, n) for n in lengths if _inside(side.scope, indices, at, n)][:1]


def _inside(scope: LanePairScope, access: PlacedAccess, at: Form, length: int) -> bool:
    offset = plus(at, access.who, -length)
    facts = scope.facts_of([offset, *access.holds])
    equal = [form for f in facts for form in f.equal]
    rest = [*access.holds, *(form for f in facts for form in f.nonnegative)]
    outside = less_than(offset, constant(0)), less_than(constant(length - 1), offset)
    cases = [forms for _, forms in scope.possible_cases(facts)]
    return all(is_infeasible(equal, [*rest, *forms, other]) for other in outside for forms in cases)


def _placed(part: Part, side: LaneSide, threads: int) -> PlacedAccess:
    if isinstance(part, LanePart):
        return placed(part.access, side, threads)
    at, thread = side.at_layout(part.layout, part.writes)
    at, inside = side.place(part.buffer, at)
    return PlacedAccess(at, inside, side.group(thread, threads))
