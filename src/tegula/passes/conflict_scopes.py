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
from tegula.passes.accesses import BufferAccess, ResolvedAccess, accesses, resolve_access
from tegula.passes.element_indices import LanePairScope, LaneSide, row_major
from tegula.passes.groups import role_of
from tegula.passes.inequalities import Atom, Form, are_infeasible, constant, less_than, plus
from tegula.passes.uniformity import Uniformity

MAX_ACCESSES = 200
"""The maximum number of analysed accesses of a kernel; all other accesses have the group as their scope."""


class ConflictScope(IntEnum):
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
    access_of_key = {a.deduplication_key: a for a in accesses(op)}
    yield from ((a.kind, LanePart(a)) for a in access_of_key.values())


Window = tuple[int, int, int]
"""A dimension (the rank stands for the row-major order), the start of the first thread's or warp's window along the
dimension, and the length of each window."""


class ConflictScopes:
    """Proves the scope of conflicts between accesses of one kernel."""

    def __init__(self, kernel: Kernel, known: Uniformity) -> None:
        self.kernel, self.known = kernel, known
        self.ranges = IntegerRanges(kernel.launch)
        self.scopes: dict[Region, LanePairScope] = {}
        self.windows: dict[object, dict[ConflictScope, set[Window]] | None] = {}
        """The windows of each part; None for parts that are not analysed, because there are too many."""

    def of(self, a: Part, b: Part, op: Op) -> ConflictScope:
        """The scope of conflicts between two accesses by the group of the op `op`."""
        if root(a.buffer) is not root(b.buffer):
            return ConflictScope.GROUP
        if self._share_windows(a, b, op, ConflictScope.THREAD):
            return ConflictScope.THREAD
        if self._scope(op).lanes() <= WARP or self._share_windows(a, b, op, ConflictScope.WARP):
            return ConflictScope.WARP
        return ConflictScope.GROUP

    def _share_windows(self, a: Part, b: Part, op: Op, scope: ConflictScope) -> bool:
        """Whether each thread or warp accesses only its own window through both accesses. Without windows of the first
        access those of the second one need no proof."""
        windows = self._windows(a, op, scope)
        return bool(windows) and not windows.isdisjoint(self._windows(b, op, scope))

    def _windows(self, part: Part, op: Op, scope: ConflictScope) -> set[Window]:
        """The proved windows of each thread or warp. They are computed when they are asked for, because the proofs take
        most of the time."""
        if part.key not in self.windows:
            self.windows[part.key] = {} if len(self.windows) < MAX_ACCESSES else None
        windows = self.windows[part.key]
        if windows is None:
            return set()
        if scope not in windows:
            threads = 1 if scope is ConflictScope.THREAD else WARP
            windows[scope] = set(_proved_windows(part, self._scope(op).a, threads))
        return windows[scope]

    def _scope(self, op: Op) -> LanePairScope:
        region = role_of(op) or self.kernel.body
        if region not in self.scopes:
            self.scopes[region] = LanePairScope(region, region, self.known, self.ranges)
        return self.scopes[region]


def _proved_windows(part: Part, side: LaneSide, threads: int) -> Iterator[Window]:
    """At most one proved window along each dimension, and one in row-major order. Windows divide the buffer or the
    accessed part of it among the threads, or are as long as a step from thread to thread."""
    resolved, shape = _resolve(part, side, threads), buffer_type(root(part.buffer).type).shape
    of_layout = _variables_of_layout(part, side)
    groups = -(-side.scope.lanes() // threads)
    dimensions = [*zip(resolved.index, shape, strict=True)]
    if len(shape) > 1:
        dimensions.append((row_major(resolved.index, shape), prod(shape)))
    for dim, (form, extent) in enumerate(dimensions):
        steps = {abs(n) * threads for atom, n in form[0].items() if atom in side.lane[0]} or {threads}
        extents = (
            [extent, *part.layout.shape] if isinstance(part, TilePart) and dim < len(shape) else [extent]
        )
        lengths = dict.fromkeys([*(-(-n // groups) for n in extents), *steps])
        starts = dict.fromkeys([0, form[1]]) if dim < len(shape) else [0]
        if extent > 1 and (of_layout is None or form[0] and form[0].keys() <= of_layout):
            windows = ((start, n) for start in starts for n in lengths)
            yield from [(dim, *w) for w in windows if _inside(side.scope, resolved, form, *w)][:1]


def _variables_of_layout(part: Part, side: LaneSide) -> set[Atom] | None:
    """The variables on which the elements of a thread depend; None if unknown. An index that depends on others, such as
    the index of a loop, is in no window of the thread."""
    if isinstance(part, LanePart):
        return None
    index, thread = side.at_layout(part.layout, part.writes)
    return {atom for form in (*index, thread) for atom in form[0]}


def _inside(scope: LanePairScope, access: ResolvedAccess, index: Form, start: int, length: int) -> bool:
    offset = plus(plus(index, access.thread, -length), constant(-start))
    facts = scope.facts_of([offset, *access.guards])
    equal = [form for f in facts for form in f.equal]
    nonnegative = [*access.guards, *(form for f in facts for form in f.nonnegative)]
    outside = less_than(offset, constant(0)), less_than(constant(length - 1), offset)
    cases = scope.possible_cases(facts)
    return all(are_infeasible(equal, [*nonnegative, *forms], outside) for _, forms in cases)


def _resolve(part: Part, side: LaneSide, threads: int) -> ResolvedAccess:
    if isinstance(part, LanePart):
        return resolve_access(part.access, side, threads)
    index, thread = side.at_layout(part.layout, part.writes)
    index, inside = side.place(part.buffer, index)
    return ResolvedAccess(index, inside, side.group(thread, threads))
