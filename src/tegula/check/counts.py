"""How often roles wait for barriers and arrive at them, as formulas in what a launch decides: all who share a barrier
must do so equally often in every launch, but for some times at the start and at the end that do not depend on how often
loops run (conditions C1 and C2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from fractions import Fraction
from math import gcd, lcm
from typing import Any

from tegula.check.counters import OPPOSITE, Rounds, counted, leaves_at_the_top, settles
from tegula.check.forms import (
    Form,
    Forms,
    Term,
    by_number,
    constant,
    depth,
    divided_rest,
    floor_divided,
    quotient,
    rest_by,
    spelled,
)
from tegula.check.slices import Followed
from tegula.check.verdict import Unproved
from tegula.dataclass import dataclass
from tegula.ir import Op, Region, Value
from tegula.ops import scalar as S
from tegula.ops.control import For, If, While
from tegula.ops.schedule import MbarrierArrive, MbarrierExpect, MbarrierWait, NamedArrive, NamedSync

Product = frozenset[tuple[Any, int]]
"""Atoms and their powers."""


@dataclass(frozen=True, slots=True)
class Count:
    """A sum of products of atoms, each with a factor. Atoms: ("trips", span, step), how often a loop runs; ("positive",
    form) and ("zero", form), 1 or 0; ("least", trips, n), how often a loop runs or n, whichever is less; ("sum", span,
    step, conditions) over a loop, "some" over few rounds; conditions that are not resolved."""

    parts: frozenset[tuple[Product, int]] = frozenset()

    def __add__(self, other: Count) -> Count:
        found = dict(self.parts)
        for product, factor in other.parts:
            found[product] = found.get(product, 0) + factor
        return Count(frozenset((p, f) for p, f in found.items() if f))

    def __mul__(self, other: Count) -> Count:
        out = Count()
        for p, f in self.parts:
            for q, g in other.parts:
                out += Count(frozenset({(_times(p, q), f * g)}))
        return out

    def negated(self) -> Count:
        """1 minus the count: of a condition, its opposite."""
        return ONE.minus(self)

    def minus(self, other: Count) -> Count:
        return self + Count(frozenset((p, -f) for p, f in other.parts))

    def growing(self, few: int) -> Count:
        """What of the count grows with how often loops run, without a common factor: how often a phase is waited for,
        or arrived at, is seen in the launches that are unrolled. Loops that run `few` times more or less are alike, and
        one that takes every n-th round of another is an n-th of it."""
        total: dict[Product, Fraction] = {}
        for product, factor in self.parts:
            alike, share = _roughly(product, few)
            total[alike] = total.get(alike, Fraction(0)) + factor * share
        rest = {p: f for p, f in total.items() if f and any(atom[0] not in BOUNDED for atom, _ in p)}
        whole = lcm(*(f.denominator for f in rest.values()))
        common = gcd(*(int(f * whole) for f in rest.values()))
        return Count(frozenset((p, int(f * whole) // common) for p, f in rest.items()))


def _little(count: Count, few: int) -> bool:
    """Whether a count is one of few, however often loops run."""
    return count.growing(few) == NOTHING


CONDITIONS = ("positive", "zero", "condition")
BOUNDED = (*CONDITIONS, "least", "some")


NOTHING = Count()
ONE = Count(frozenset({(frozenset(), 1)}))


def _atom(*parts: Any) -> Count:
    return Count(frozenset({(frozenset({(parts, 1)}), 1)}))


def _number(n: int) -> Count:
    return Count(frozenset({(frozenset(), n)})) if n else NOTHING


def _times(p: Product, q: Product) -> Product:
    """A condition holds or not, however often it is asked for; a loop that runs has a positive span."""
    powers = dict(p)
    for atom, n in q:
        powers[atom] = 1 if atom[0] in CONDITIONS else powers.get(atom, 0) + n
    spans = {_sign(atom[1]) for atom in powers if atom[0] == "trips"}
    return frozenset((a, n) for a, n in powers.items() if not (a[0] == "positive" and a[1] in spans))


def _roughly(product: Product, few: int) -> tuple[Product, Fraction]:
    """How often a single loop runs, give or take a few rounds, as a part of how often another one runs."""
    whole = Fraction(1)
    loops = [(atom, n) for atom, n in product if atom[0] not in CONDITIONS]
    if len(loops) != 1 or loops[0][0][0] != "trips" or loops[0][1] != 1:
        return product, whole
    ((_, rounds, step), _) = loops[0]
    rest = Form(0, frozenset((_nearly(t, few), f) for t, f in rounds.terms))
    if abs(rounds.constant) <= few and rest.terms:
        rounds = rest
    if all(_is_few(t, f, few) for t, f in rounds.terms):
        return frozenset((a, n) for a, n in product if a[0] in CONDITIONS), whole
    part = quotient(rounds) if len(product) == 1 else None
    if part is not None and abs(part[0].constant) <= few * part[1]:
        rounds, share = part[0] - constant(part[0].constant), Fraction(1, part[1])
        return frozenset({(("trips", rounds.divided(rounds.content), step), 1)}), share * rounds.content
    return frozenset({*(x for x in product if x not in loops), (("trips", rounds, step), 1)}), whole


def _nearly(term: Term, few: int) -> Term:
    """A quotient without what changes it little."""
    known = by_number(term)
    if known is None or abs(known[0].constant) > few * known[1]:
        return term
    above, below = known
    return Term("floordiv", (above - constant(above.constant), constant(below)))


def _is_few(term: Term, factor: int, few: int) -> bool:
    """Whether a term is a minimum with a small number, and more of it is more."""
    numbers = [f.number for f in term.forms() if f.number is not None]
    return term.kind == "min" and factor == 1 and any(n <= few for n in numbers)


class Counter:
    """Counts what roles do to one barrier. `few`: rounds of a loop that are few enough to be seen in the launches that
    are unrolled; `idle`: waits that only ever wait for what was waited for before."""

    def __init__(self, forms: Forms, followed: Followed, few: int, idle: AbstractSet[Op]) -> None:
        self.forms, self.followed, self.few, self.idle = forms, followed, few, idle

    def count(self, region: Region, kinds: tuple[type[Op], ...], barrier: Value) -> Count:
        """How often ops of the kinds run in a region."""
        total = NOTHING
        for op in region.ops:
            if isinstance(op, kinds) and op.operands[0] is barrier:
                total += NOTHING if op in self.idle else ONE
            elif isinstance(op, If | For | While) and self.followed.loud(op):
                total += self._control(op, kinds, barrier)
        return total

    def _control(self, op: Op, kinds: tuple[type[Op], ...], barrier: Value) -> Count:
        if isinstance(op, If):
            then, other = (self.count(r, kinds, barrier) for r in op.regions)
            if then == other:
                return then
            lasting = settles(op, self.few)
            if lasting is not None and _little(then.minus(other), self.few):
                return then if lasting else other
            holds = self.condition(op.operands[0])
            return holds * then + holds.negated() * other
        rounds = counted(self.forms, op)
        if rounds is not None:
            return self._loop(rounds, self.count(rounds.body, kinds, barrier))
        leaving = leaves_at_the_top(op)
        body = op.regions[1] if leaving is None else leaving.regions[1]
        total = NOTHING
        for product, factor in self.count(body, kinds, barrier).parts:
            shape = _Shape(self.forms, op, body.terminator.operands, leaving)
            said = shape.condition()
            renamed = [((shape.renamed(atom), n), atom) for atom, n in sorted(product, key=_by_kind)]
            inside = tuple(new for new, atom in renamed if new[0] != atom)
            outside = frozenset(new for new, atom in renamed if new[0] == atom)
            total += _atom("while", said, inside, shape.carried()) * Count(frozenset({(outside, factor)}))
        return total

    def _loop(self, loop: Rounds, inner: Count) -> Count:
        """The sum over all rounds. What holds in the first round alone counts once."""
        start, index, span, step = loop.start, loop.index, loop.span, loop.step
        if step.number is not None and step.number < 0:
            span, step = span.times(-1), step.times(-1)
        first = {("zero", index - start), ("zero", start - index)}
        total = NOTHING
        for product, factor in inner.parts:
            outside = frozenset((a, n) for a, n in product if not _mentions(a, index))
            inside = product - outside
            if not inside:
                rounds = _trips(span, step)
            elif len(inside) == 1 and next(iter(inside))[0] in first:
                rounds = _positive(span)
            else:
                rounds = self._some_rounds(loop, inside, span, step)
            total += rounds * Count(frozenset({(outside, factor)}))
        return total

    def _some_rounds(self, loop: Rounds, inside: Product, span: Form, step: Form) -> Count:
        """In how many rounds of a loop something holds: the first, or the last, or all but these."""
        few = (
            span.number is not None and span.number <= self.few and all(a[0] in CONDITIONS for a, _ in inside)
        )
        unknown = _atom("some" if few else "sum", span, step, inside)
        start, by = loop.start, loop.step.number
        if not few and len(inside) > 1:
            return self._rounds_of_all(loop, inside, span, step)
        ((atom, _), *others) = inside
        if not few and not others and atom[0] == "zero":
            every = _every(atom[1], loop, span)
            return unknown if every is None else every
        if few or others or atom[0] != "positive" or by is None or by == 0:
            return unknown
        (index, _), *_ = loop.index.terms
        form: Form = atom[1]
        rest = Form(form.constant, frozenset((t, f) for t, f in form.terms if t != index))
        factor = dict(form.terms).get(index, 0)
        if not factor or _mentions(rest, loop.index):
            return unknown
        first, change = rest.plus(start, factor), factor * by
        if change < 0:
            found = self._first_rounds(first, -change, span, step)
            return unknown if found is None else found
        found = self._first_rounds(constant(1) - first, change, span, step)
        return unknown if found is None else _trips(span, step).minus(found)

    def _rounds_of_all(self, loop: Rounds, inside: Product, span: Form, step: Form) -> Count:
        """In how many rounds several things hold: few, if one of them does in few; nearly all, if each of them does."""
        trips = _trips(span, step)
        found = [self._some_rounds(loop, frozenset({one}), span, step) for one in inside]
        growing = [count.growing(self.few) for count in found]
        if NOTHING in growing and _little(Count(frozenset({(inside, 1)})), self.few):
            return _atom("some", span, step, inside)
        if all(count == trips.growing(self.few) for count in growing):
            return trips.minus(_atom("some", span, step, inside))
        return _atom("sum", span, step, inside)

    def _first_rounds(self, form: Form, falls: int, span: Form, step: Form) -> Count | None:
        """In how many rounds a form is positive that falls by a number from one to the next; None where these are not
        few, or all but few."""
        by = step.number
        assert by is not None
        rounds = floor_divided(form + constant(falls - 1), falls)
        trips = floor_divided(span + constant(by - 1), by)
        n, rest = rounds.number, (trips - rounds).number
        if n is not None and n <= self.few:
            return _least(span, step, trips, n)
        if rest is not None and rest <= self.few:
            return _trips(span, step).minus(_least(span, step, trips, rest))
        return None

    def condition(self, value: Value) -> Count:
        """1 where it holds, else 0."""
        op = value.owner
        if isinstance(op, S.Const):
            return ONE if op.attrs["value"] else NOTHING
        if isinstance(op, S.Not):
            return self.condition(op.operands[0]).negated()
        if isinstance(op, S.And):
            return self.condition(op.operands[0]) * self.condition(op.operands[1])
        if isinstance(op, S.Or):
            a, b = (self.condition(v).negated() for v in op.operands)
            return (a * b).negated()
        if isinstance(op, S.Cmp) and getattr(op.operands[0].type, "kind", "f") == "i":
            return _compared(op.attrs["pred"], *(self.forms.of(v) for v in op.operands))
        return _atom("condition", self.forms.of(value))


def _compared(pred: str, a: Form, b: Form) -> Count:
    if pred in ("eq", "ne"):
        same = _zero(a - b)
        return same if pred == "eq" else same.negated()
    if pred in ("lt", "gt"):
        return _positive(b - a if pred == "lt" else a - b)
    return _positive(a - b if pred == "le" else b - a).negated()


def _zero(form: Form) -> Count:
    if form.number is not None:
        return ONE if form.number == 0 else NOTHING
    return _atom("zero", min(form, form.times(-1), key=spelled))


def _positive(form: Form) -> Count:
    if form.number is not None:
        return ONE if form.number > 0 else NOTHING
    return _atom("positive", _sign(form))


def _sign(form: Form) -> Form:
    """A simpler form that is positive where this one is: without common factors, quotients, and maxima with what is
    not positive."""
    while True:
        form = form.divided(form.content)
        divided, above = quotient(form), _above(form)
        if divided is not None:
            over, by = divided
            form = over + constant(1 - by)
        elif above is not None:
            form = above
        else:
            return form


def _above(form: Form) -> Form | None:
    """What stands in a maximum with a number that makes the form 0 or less; None for other forms."""
    if len(form.terms) != 1:
        return None
    ((term, factor),) = form.terms
    if term.kind != "max" or factor != 1:
        return None
    numbers = [p.number for p in term.forms() if p.number is not None]
    others = [p for p in term.forms() if p.number is None]
    if len(numbers) != 1 or len(others) != 1 or numbers[0] + form.constant > 0:
        return None
    return others[0] + constant(form.constant)


def _trips(span: Form, step: Form) -> Count:
    by = step.number
    if by is None:
        return _atom("trips", span, step)
    if by == 1 and len(span.terms) == 1 and not span.constant:
        ((term, factor),) = span.terms
        divisor = rest_by(term)
        if divisor is not None and factor == 1:
            return _trips_of_rest(term.parts[0], divisor)
    rounds = floor_divided(span + constant(by - 1), by)
    if rounds.number is not None:
        return _number(max(0, rounds.number))
    times = rounds.content
    rounds = rounds.divided(times)
    return _number(times) * _atom("trips", _above(rounds) or rounds, Form(1))


def _every(form: Form, loop: Rounds, span: Form) -> Count | None:
    """In how many rounds of a loop that counts from 0 by 1 a division leaves a number over; None for other forms."""
    if loop.start.number is None or loop.start.number < 0 or loop.step.number != 1:
        return None
    found = divided_rest(form)
    if found is None:
        return None
    above, by, over = found
    first = (above - loop.index).number
    if first is None or loop.start.number + first < 0:
        return None
    if not 0 <= over < by:
        return NOTHING
    return _trips(span - constant((over - first - loop.start.number) % by), constant(by))


def _trips_of_rest(whole: Form, n: int) -> Count:
    """Of a loop over what a division leaves over: what a loop over all would run more often than one over n times the
    quotient, none of which runs for a negative number."""
    one = Form(1)
    return _trips(whole, one).minus(_number(n) * _trips(floor_divided(whole, n), one))


def _least(span: Form, step: Form, trips: Form, n: int) -> Count:
    """How often a loop runs, or n."""
    if trips.number is not None:
        return _number(min(max(trips.number, 0), max(n, 0)))
    return NOTHING if n <= 0 else _positive(span) if n == 1 else _atom("least", trips, n)


def _mentions(part: Any, index: Form) -> bool:
    """Whether an atom, or a form or term in it, depends on the index of a loop."""
    ((term, _),) = index.terms
    if isinstance(part, Form):
        return any(t == term or any(_mentions(p, index) for p in t.parts) for t, _ in part.terms)
    if isinstance(part, Term):
        return part == term or any(_mentions(p, index) for p in part.parts)
    return isinstance(part, tuple | frozenset) and any(_mentions(p, index) for p in part)


# Loops with a condition ----------------------------------------------------------------------------------------------


def _by_kind(factor: tuple[Any, int]) -> str:
    return factor[0][0]


class _Shape:
    """What decides how often a `while` loop runs, alike for loops that are: expressions over what it carries, by its
    place."""

    def __init__(self, forms: Forms, loop: Op, ends: Sequence[Value], leaving: Op | None) -> None:
        self.forms, self.loop, self.ends, self.leaving = forms, loop, ends, leaving
        self.places: dict[Value, int] = {}
        for region in loop.regions:
            self.places.update({v: k for k, v in enumerate(region.args)})
        self.order: list[int] = []

    def condition(self) -> Any:
        """What each round is run for."""
        if self.leaving is not None:
            return self._truth(self.leaving.operands[0], True)
        return self._truth(self.loop.regions[0].terminator.operands[0], False)

    def renamed(self, part: Any) -> Any:
        """An atom, form or term with what the loop carries called by its place."""
        if isinstance(part, Form):
            changed = Form(part.constant)
            for term, factor in part.terms:
                changed = changed.plus(Form(0, frozenset({(self.renamed(term), 1)})), factor)
            return changed
        if isinstance(part, Term):
            if part.kind == "value" and part.parts[0] in self.places:
                return Term("carried", (*self._expression(part.parts[0]), depth(self.loop)))
            return Term(part.kind, tuple(map(self.renamed, part.parts)))
        if isinstance(part, tuple | frozenset):
            return type(part)(map(self.renamed, part))  # type: ignore[arg-type]
        return part

    def carried(self) -> Any:
        """Start and end of what was met in this, in the order met."""
        out: list[Any] = []
        for k in self.order:
            out.append((self.forms.of(self.loop.operands[k]), self._expression(self.ends[k])))
        return tuple(out)

    def _truth(self, value: Value, negated: bool) -> Any:
        op = value.owner
        if isinstance(op, S.Not):
            return self._truth(op.operands[0], not negated)
        if isinstance(op, S.Cmp):
            pred = OPPOSITE[op.attrs["pred"]] if negated else op.attrs["pred"]
            return (pred, *(self._expression(v) for v in op.operands))
        return ("not", self._expression(value)) if negated else self._expression(value)

    def _expression(self, value: Value) -> Any:
        if value in self.places:
            k = self.places[value]
            if k not in self.order:
                self.order.append(k)
            return ("carried", self.order.index(k))
        op = value.owner
        inside = isinstance(op, Op) and any(r is op.parent or _within(op, r) for r in self.loop.regions)
        if not inside or not isinstance(op, Op):
            return self.forms.of(value)
        if isinstance(op, If):
            k = op.results.index(value)
            branches = (self._expression(r.terminator.operands[k]) for r in op.regions)
            return ("if", self._truth(op.operands[0], False), *branches)
        if op.regions or (isinstance(op, For | While)):
            return ("value", value)
        attrs = tuple(sorted((k, repr(v)) for k, v in op.attrs.items()))
        return (op.NAME, attrs, *(self._expression(v) for v in op.operands))


def _within(op: Op, region: Region) -> bool:
    at = op.parent
    while at is not None and at is not region:
        at = at.parent.parent if at.parent is not None else None
    return at is region


# The conditions ------------------------------------------------------------------------------------------------------

ARRIVALS = (MbarrierArrive, MbarrierExpect, NamedSync, NamedArrive)


def check_counts(
    forms: Forms,
    followed: Followed,
    roles: Sequence[tuple[str, Region]],
    barriers: Iterable[Value],
    stages: int,
    idle: AbstractSet[Op],
) -> None:
    """Unproved where two roles wait for or arrive at a barrier, and it is not sure that both do so equally often, but
    for some times. `stages`: the most of a barrier; `idle` waits do not count."""
    counter = Counter(forms, followed, stages + 1, idle)
    for barrier in barriers:
        found: list[tuple[str, Op, Count]] = []
        for name, region in roles:
            for kinds, verb in (((MbarrierWait,), "waits for"), (ARRIVALS, "arrives at")):
                count = counter.count(region, kinds, barrier)
                if count != NOTHING:
                    found.append((f"{name} {verb} it", _where(region, kinds, barrier), count))
        grown = [count.growing(counter.few) for *_, count in found]
        if any(count != grown[0] for count in grown):
            first, at, _ = found[0]
            other, there, _ = found[next(k for k, count in enumerate(grown) if count != grown[0])]
            raise Unproved(
                "counts",
                f"whether {first} and {other} equally often is not known, for {barrier.name or 'a barrier'}",
                at.loc,
                "give the loops of all roles of a pipe the same bounds, written with the same arguments",
                ((there.loc, "the other loop"),),
            )


def _where(region: Region, kinds: tuple[type[Op], ...], barrier: Value) -> Op:
    """The innermost loop around the first such op, else the op."""
    op = next(op for op in region.walk() if isinstance(op, kinds) and op.operands[0] is barrier)
    at = op.parent
    while at is not None and at is not region and at.parent is not None:
        if isinstance(at.parent, For | While):
            return at.parent
        at = at.parent.parent
    return op
