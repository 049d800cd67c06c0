"""Where tiles lie in arrays, as far as two accesses can be told apart: at distances that are known, or in rounds of
loops that each move on."""

from __future__ import annotations

from collections.abc import Iterator

from tegula.dataclass import dataclass
from tegula.ir import Op, Region, Value
from tegula.ops.array import ArrayView
from tegula.ops.control import For, While
from tegula.ops.integer_ranges import of_type, within
from tegula.ops.scalar import Const
from tegula.ops.schedule import BulkStore
from tegula.ops.tile import TileAtomic, TileLoad, TileStore
from tegula.passes.accesses import linear
from tegula.types import TileType, int32

INT32 = of_type(int32) or (0, 0)
Linear = tuple[dict[Value, int], int]


@dataclass(frozen=True, slots=True)
class Span:
    """Elements of one dimension: from a sum of terms, so many."""

    terms: tuple[tuple[Value, int], ...]
    constant: int
    length: int

    def distance(self, other: Span) -> int | None:
        """How far the other one starts after this one, where that is the same in all threads and rounds."""
        return other.constant - self.constant if dict(self.terms) == dict(other.terms) else None

    def hull(self) -> tuple[int, int] | None:
        """All elements that any round of any loop means, end excluded, where that is known."""
        low = high = self.constant
        for value, factor in self.terms:
            rounds = _rounds(value)
            if not rounds:
                return None
            ends = (factor * rounds[0], factor * rounds[-1])
            low, high = low + min(ends), high + max(ends)
        # What does not fit into the type of an offset lies elsewhere.
        return (low, high + self.length) if within((low, high), INT32) else None


Window = tuple[Span, ...]
"""One span for each dimension of an array parameter."""


def window(op: Op) -> Window | None:
    """The elements of the parameter that a tile access touches at most; None where that is not known."""
    if not isinstance(op, TileLoad | TileStore | TileAtomic | BulkStore):
        return None
    array, *rest = op.operands[isinstance(op, BulkStore) :]
    tile = op.result.type if isinstance(op, TileLoad) else rest[0].type
    assert isinstance(tile, TileType)
    at = [(linear(v), n) for v, n in zip(rest[1:], tile.shape, strict=True)]
    return in_source(array, at)


def in_source(array: Value, at: list[tuple[Linear, int]]) -> Window | None:
    """Offsets and lengths in an array or view as elements of the parameter that it shows; None where that is not
    known."""
    while isinstance(array.owner, ArrayView):
        outer = _in_source(array.owner, at)
        if outer is None:
            return None
        at, array = outer, array.owner.operands[0]
    return tuple(Span(tuple(terms.items()), constant, n) for (terms, constant), n in at)


def _in_source(view: Op, at: list[tuple[Linear, int]]) -> list[tuple[Linear, int]] | None:
    """Offsets in a view as offsets in the array that it shows; slices only with step 1 from a constant."""
    numbers, inner = iter(view.operands[1:]), iter(at)
    made: list[tuple[Linear, int]] = []
    for entry in view.attrs["spec"]:
        first = linear(next(numbers))
        if entry == "index":
            made.append((first, 1))
            continue
        next(numbers)
        (terms, constant), n = next(inner)
        if entry[1] != 1 or first[0]:
            return None
        made.append(((terms, constant + first[1]), n))
    return made


def same_in_all(a: Window, b: Window) -> bool:
    """Whether two windows begin at the same elements in the same round."""
    return len(a) == len(b) and all(x.distance(y) == 0 for x, y in zip(a, b, strict=True))


def apart(op: Op, other: Op, a: Window, b: Window) -> bool:
    """Whether two windows share no element, in whatever rounds of the loops around the ops."""
    loops = [*loops_around(op), *loops_around(other)]
    return len(a) == len(b) and any(_always_apart(x, y, loops) for x, y in zip(a, b, strict=True))


def _always_apart(a: Span, b: Span, loops: list[Op]) -> bool:
    d = a.distance(b)
    if d is not None and all(_outside(v, loops) for v, _ in a.terms):
        return d >= a.length or -d >= b.length
    first, second = a.hull(), b.hull()
    return first is not None and second is not None and (first[1] <= second[0] or second[1] <= first[0])


def on_a_grid(op: Op, other: Op, a: Span, b: Span) -> bool:
    """Whether two spans share all their elements or none, in whatever rounds of the loops around the ops: they begin a
    multiple of their one length apart."""
    if a.length != b.length or (a.constant - b.constant) % a.length:
        return False
    loops, first, second = [*loops_around(op), *loops_around(other)], dict(a.terms), dict(b.terms)
    for value in {**first, **second}:
        factors = first.get(value, 0), second.get(value, 0)
        apart = [factors[0] - factors[1]] if _outside(value, loops) else factors
        if any(factor % a.length for factor in apart):
            return False
    return True


def moves_on(op: Op, other: Op, at: Window, lengths: Window) -> bool:
    """Whether windows that begin at the same elements in the same round share none in different rounds of the loops
    around both ops, each of which moves them by at least their length in a dimension of its own."""
    loops = list(loops_around(op))
    if loops != list(loops_around(other)):
        return False
    if not all(isinstance(loop, For) for loop in loops):
        return False
    indices = {loop.regions[0].args[0]: loop for loop in loops}
    moved: set[Value] = set()
    for span, second in zip(at, lengths, strict=True):
        inside = [(v, c) for v, c in span.terms if not _outside(v, loops)]
        if len(inside) != 1 or inside[0][0] not in indices:
            continue
        index, factor = inside[0]
        step = indices[index].operands[2].owner
        size = step.attrs["value"] if isinstance(step, Const) else 1
        if abs(factor * size) >= max(span.length, second.length):
            moved.add(index)
    return moved == set(indices)


def _rounds(index: Value) -> range | None:
    """The values of a loop's index, where its bounds are constants."""
    loop = index.owner.parent if isinstance(index.owner, Region) else None
    if not isinstance(loop, For) or index is not loop.regions[0].args[0]:
        return None
    bounds = [v.owner.attrs["value"] for v in loop.operands[:3] if isinstance(v.owner, Const)]
    return range(*bounds) if len(bounds) == 3 and bounds[2] != 0 else None


def loops_around(op: Op) -> Iterator[Op]:
    """The loops that an op is in, the innermost first."""
    at = op.parent.parent if op.parent is not None else None
    while at is not None:
        if isinstance(at, For | While):
            yield at
        at = at.parent.parent if at.parent is not None else None


def _outside(value: Value, loops: list[Op]) -> bool:
    """Whether a value is made outside all of the loops, and so is one value for all their rounds."""
    owner = value.owner
    made_in = owner.parent if isinstance(owner, Region) else owner
    if made_in is None:
        return True
    return made_in not in loops and not any(loop in loops for loop in loops_around(made_in))
