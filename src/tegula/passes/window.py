"""Analysis of the windows of arrays that tile accesses cover, which proves accesses disjoint: by a constant distance,
or because each enclosing loop moves the window in every iteration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd

from tegula.dataclass import dataclass, replace
from tegula.ir import ConstantLike, LoopLike, Op, Region, Value
from tegula.ops.array import ArrayView
from tegula.ops.control import For
from tegula.ops.integer_ranges import IntegerRanges, range_of_type, within
from tegula.ops.schedule import BulkStore
from tegula.ops.tile import TileAtomic, TileLoad, TileStore
from tegula.passes.accesses import linear
from tegula.types import DType, TileType


@dataclass(frozen=True, slots=True)
class Span:
    """An interval of `length` elements in one dimension, which starts at `constant` plus a sum of terms (value,
    factor). The sum is exact modulo `wrap`, since the arithmetic of offsets wraps in their type."""

    terms: tuple[tuple[Value, int], ...]
    constant: int
    length: int
    type: DType

    @property
    def wrap(self) -> int:
        """The number of integers of the type, the modulus of its arithmetic."""
        return 1 << self.type.bits

    def distance(self, other: Span) -> int | None:
        """The distance in elements from the start of the span to the start of another, modulo `wrap` and non-negative,
        if it is the same in all threads and iterations; else None."""
        if dict(self.terms) != dict(other.terms):
            return None
        return (other.constant - self.constant) % _wrap(self, other)

    def hull(self) -> tuple[int, int] | None:
        """The range [first, end) of elements that the span covers over all iterations of enclosing loops; None if
        unknown."""
        low = high = self.constant
        for value, factor in self.terms:
            iterations = _iterations(value)
            if not iterations:
                return None
            ends = (factor * iterations[0], factor * iterations[-1])
            low, high = low + min(ends), high + max(ends)
        # A sum that does not fit into the type of an offset wraps.
        return (low, high + self.length) if within((low, high), range_of_type(self.type) or (0, 0)) else None


Window = tuple[Span, ...]
"""A span for each dimension of an array parameter."""


def span(first: Value, length: int) -> Span:
    """The span of `length` elements that starts at an offset."""
    terms, constant = linear(first)
    assert isinstance(first.type, DType)
    return Span(tuple(terms.items()), constant, length, first.type)


def window(op: Op) -> Window | None:
    """The elements of the parameter that a tile access covers at most; None if unknown."""
    if not isinstance(op, TileLoad | TileStore | TileAtomic | BulkStore):
        return None
    tile = op.result.type if isinstance(op, TileLoad) else op.tile.type
    assert isinstance(tile, TileType)
    return in_source(op.array, [span(v, n) for v, n in zip(op.offset, tile.shape, strict=True)])


def in_source(array: Value, spans: Sequence[Span]) -> Window | None:
    """Elements of an array or view as elements of the underlying parameter; None if unknown."""
    while isinstance(array.owner, ArrayView):
        outer = _in_source(array.owner, spans)
        if outer is None:
            return None
        spans, array = outer, array.owner.array
    return tuple(spans)


def _in_source(view: ArrayView, spans: Sequence[Span]) -> list[Span] | None:
    """Elements of a view as elements of the viewed array; slices only with step 1 from a constant."""
    numbers, inner = iter(view.bounds), iter(spans)
    result: list[Span] = []
    for entry in view.spec:
        first = span(next(numbers), 1)
        if entry == "index":
            result.append(first)
            continue
        next(numbers)
        part = next(inner)
        if entry[1] != 1 or first.terms:
            return None
        result.append(replace(part, constant=part.constant + first.constant))
    return result


def start_together(a: Window, b: Window) -> bool:
    """Whether two windows start at the same element in the same iteration."""
    return len(a) == len(b) and all(x.distance(y) == 0 for x, y in zip(a, b, strict=True))


def are_disjoint(op: Op, other: Op, a: Window, b: Window) -> bool:
    """Whether two windows are disjoint in all iterations of the enclosing loops."""
    loops = [*loops_around(op), *loops_around(other)]
    return len(a) == len(b) and any(_always_disjoint(x, y, loops) for x, y in zip(a, b, strict=True))


def _always_disjoint(a: Span, b: Span, loops: Sequence[Op]) -> bool:
    d = a.distance(b)
    if d is not None and all(_is_invariant(v, loops) for v, _ in a.terms):
        return _is_disjoint_at_distance(d, _wrap(a, b), a, b)
    first, second = a.hull(), b.hull()
    return first is not None and second is not None and (first[1] <= second[0] or second[1] <= first[0])


def _wrap(a: Span, b: Span) -> int:
    return min(a.wrap, b.wrap)


def _is_disjoint_at_distance(distance: int, step: int, a: Span, b: Span) -> bool:
    """Whether two spans are disjoint if b starts `distance` elements after a, plus any multiple of `step`."""
    gap = distance % step
    return a.length <= gap <= step - b.length


def on_a_grid(op: Op, other: Op, a: Span, b: Span, ranges: IntegerRanges) -> bool:
    """Whether two spans are equal or disjoint, in any iterations of the enclosing loops: they have the same length, and
    their starts differ by a multiple of a step that is at least this length. If offsets may wrap, the step divides the
    modulus."""
    if a.length != b.length:
        return False
    loops, first, second = [*loops_around(op), *loops_around(other)], dict(a.terms), dict(b.terms)
    distance, step = b.constant - a.constant, 0
    low = high = distance
    for value in {**first, **second}:
        factors = -first.get(value, 0), second.get(value, 0)
        is_common = factors[0] == -factors[1]
        for factor in [sum(factors)] if _is_invariant(value, loops) else factors:
            step = gcd(step, factor * (_step(value) if is_common else 1))
            ends = [factor * n for n in ranges.of(value)]
            low, high = low + min(ends), high + max(ends)
    if max(-low, high) > _wrap(a, b) - a.length:
        step = gcd(step, _wrap(a, b))
    step = step or _wrap(a, b)
    is_aligned = distance % step == 0 and step >= a.length
    return is_aligned or _is_disjoint_at_distance(distance, step, a, b)


def never_revisits(op: Op, other: Op, starts: Window, lengths: Window, ranges: IntegerRanges) -> bool:
    """Whether windows that start at the same element in the same iteration are disjoint in different iterations of the
    loops around both ops: each loop moves the windows by at least their length, in a dimension of its own, and without
    wrapping around to elements of earlier iterations."""
    loops = list(loops_around(op))
    if loops != list(loops_around(other)):
        return False
    indices = {loop.index: loop for loop in loops if isinstance(loop, For)}
    if len(indices) < len(loops):
        return False
    moving: set[Value] = set()
    for first, second in zip(starts, lengths, strict=True):
        varying = [(v, c) for v, c in first.terms if not _is_invariant(v, loops)]
        if len(varying) != 1 or varying[0][0] not in indices:
            continue
        index, factor = varying[0]
        length, (low, high) = max(first.length, second.length), ranges.of(index)
        if abs(factor * _step(index)) >= length and abs(factor) * (high - low) <= first.wrap - length:
            moving.add(index)
    return moving == set(indices)


def _step(value: Value) -> int:
    """A number that divides the difference of any two values of a loop's index: the constant step, else 1."""
    loop = _loop_of(value)
    step = loop.step.owner if loop is not None else None
    return abs(step.value) if isinstance(step, ConstantLike) else 1


def _loop_of(value: Value) -> For | None:
    """The loop of which a value is the index."""
    loop = value.owner.parent if isinstance(value.owner, Region) else None
    return loop if isinstance(loop, For) and value is loop.index else None


def _iterations(index: Value) -> range | None:
    """The range of a loop's index, if its bounds are constants."""
    loop = _loop_of(index)
    return None if loop is None else loop.positions


def loops_around(op: Op) -> Iterator[LoopLike]:
    """The loops that enclose an op, innermost first."""
    ancestor = op.parent.parent if op.parent is not None else None
    while ancestor is not None:
        if isinstance(ancestor, LoopLike):
            yield ancestor
        ancestor = ancestor.parent.parent if ancestor.parent is not None else None


def _is_invariant(value: Value, loops: Sequence[Op]) -> bool:
    """Whether a value is invariant in all of the loops."""
    owner = value.owner
    defined_in = owner.parent if isinstance(owner, Region) else owner
    if defined_in is None:
        return True
    return defined_in not in loops and not any(loop in loops for loop in loops_around(defined_in))
