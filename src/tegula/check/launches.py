"""Launches that are worth unrolling: those that make loops run 0, 1, about as many times as a pipe has stages, and more
than twice as many times, in all combinations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, islice, product
from zlib import crc32

from tegula.check.forms import Form, Forms, Term, of_term, simplest_first
from tegula.check.horizon import Deciders, changes, deciders, horizon, leaves
from tegula.check.slices import Followed
from tegula.dataclass import dataclass, field
from tegula.ir import Value
from tegula.ops import scalar as S
from tegula.ops.control import For, If, While

MOST, MANY = 48, 16
"""Launches; stages of a ring that are many."""
SMALL = 4
"""The targets of a wish that are combined with all others."""
DEFAULTS = {"block.index": 0, "block.count": 1, "tid": 0}
MIXED, MIXTURES, ALONG = 3, 4, 2
"""How many different elements an array has where these differ; in how many ways; in how many launches."""
OTHERWISE = 1
"""What else a launch decides, where nothing asks for another value."""


@dataclass(frozen=True, slots=True)
class Values:
    """The values of a launch, by what they are values of. `unmet`: which wishes they do not fulfil; `mixed`: the
    elements of an array that loops read one after the other are that some times, each another number of times (0: all
    are alike)."""

    known: dict[Term, int] = field(default_factory=dict[Term, int])
    unmet: tuple[int, ...] = ()
    mixed: int = 0

    def of(self, term: Term, at: tuple[int | None, ...] = ()) -> int:
        """`at`: which element of an array."""
        value = self.known.get(term, DEFAULTS.get(term.kind, OTHERWISE))
        return value * (crc32(repr((self.mixed, at)).encode()) % MIXED) if self.mixed and at else value


@dataclass(frozen=True, slots=True)
class Wish:
    """A form that decides about control, and the values that it should have."""

    form: Form
    targets: tuple[int, ...]


def launches(forms: Forms, followed: Followed, stages: Sequence[int]) -> Iterator[Values]:
    """The launches that give what decides about control its interesting values; each once. Unproved."""
    seen: set[frozenset[tuple[Term, int]]] = set()
    found = deciders(followed)
    counts = _counts(stages, horizon(forms, found, stages))
    wished = list(islice(_new(_wished(_wishes(forms, followed, found, stages, counts)), seen), MOST))
    plain = _new(_plain(forms, followed, counts), seen)
    return chain(wished, plain, _mixed(wished) if _reads_by_round(forms, followed, found) else ())


def _reads_by_round(forms: Forms, followed: Followed, found: Deciders) -> bool:
    """Whether elements of arrays decide, others in other rounds."""
    asked = {*found.each, *(v for op in followed.controls if isinstance(op, For) for v in op.bounds)}
    terms = {term for value in asked for term in forms.of(value).all_terms()}
    return any(term.kind == "load" and any(changes(f) for f in term.forms()) for term in terms)


def _mixed(found: Sequence[Values]) -> Iterator[Values]:
    """Those of the launches in which most is done, with different elements of arrays."""
    longest = sorted(found, key=lambda values: -sum(map(abs, values.known.values())))[:ALONG]
    for number in range(1, MIXTURES + 1):
        yield from (Values(values.known, values.unmet, number) for values in longest)


def _new(found: Iterable[Values], seen: set[frozenset[tuple[Term, int]]]) -> Iterator[Values]:
    for values in found:
        key = frozenset(values.known.items())
        if key not in seen:
            seen.add(key)
            yield values


def _wished(wishes: Sequence[Wish]) -> Iterator[Values]:
    for wanted in _combinations(wishes):
        values = _solved(wishes, wanted)
        if values is None:
            continue
        yield values
        for k in values.unmet:  # what comes first has its way
            places = [k, *(j for j in reversed(range(len(wishes))) if j != k)]
            other = _solved([wishes[j] for j in places], [wanted[j] for j in places])
            if other is not None:
                yield other


def _plain(forms: Forms, followed: Followed, counts: Sequence[int]) -> Iterator[Values]:
    """Where integer arguments decide by themselves: all the same, or one of them."""
    found = (forms.of(v) for v in forms.kernel.params if v in followed.needed)
    alone = [t for form in found for t, _ in form.terms]
    for n in counts if alone else ():
        yield Values(dict.fromkeys(alone, n))
        if len(alone) > 1:
            yield from (Values({**dict.fromkeys(alone, counts[-1]), leaf: n}) for leaf in alone)


def _counts(stages: Sequence[int], far: int) -> list[int]:
    """How often loops are to run. `far`: after so many rounds nothing new comes; 0: after those here."""
    found = {0, 1, 2}
    for s in stages:
        found |= {max(0, s - 1), s, s + 1, 2 * s + 1}
    return sorted(found | {far + 1}) if far else sorted(found)


def _combinations(wishes: Sequence[Wish]) -> Iterator[tuple[int, ...]]:
    """Of two wishes each target with each, but for those that are large for both. Of more all targets alike, the
    largest last, then each with two of the others, then each with each."""
    if len(wishes) <= 2:
        for places in product(*(range(len(w.targets)) for w in wishes)):
            if len(places) < 2 or min(places) < SMALL:
                yield tuple(w.targets[k] for w, k in zip(wishes, places, strict=True))
        return
    most = max(len(w.targets) for w in wishes)
    for k in range(most):
        yield tuple(w.targets[min(k, len(w.targets) - 1)] for w in wishes)
    for a in range(len(wishes)):
        for rest in (1, 2):
            for target in wishes[a].targets:
                yield tuple(
                    target if b == a else w.targets[min(rest, len(w.targets) - 1)]
                    for b, w in enumerate(wishes)
                )
    yield from product(*(w.targets for w in wishes))


def _wishes(
    forms: Forms, followed: Followed, deciding: Deciders, stages: Sequence[int], counts: Sequence[int]
) -> list[Wish]:
    few = [0, 1, 2]
    found: dict[Form, set[int]] = {}
    for op in followed.controls:
        # Of rings with many stages, all combinations would be too long.
        some = few if found and max(stages) > MANY else counts
        for form, targets in _of_control(forms, op, some):
            start, sign = _at_start(form), 1
            if not any(not _given(leaf) for leaf in start.leaves()):
                continue
            if start.times(-1) in found:
                start, sign = start.times(-1), -1
            # A loop that runs a negative number of times runs no time.
            wanted = {sign * n for n in targets}
            found.setdefault(start, set()).update(n for n in wanted if n >= 0 or not isinstance(op, For))
    controlled = {leaf for form in found for leaf in form.leaves()}
    for form, targets in leaves(forms, deciding):
        if not (controlled.issuperset(form.leaves()) and _is_leaf(form)) and form.times(-1) not in found:
            found.setdefault(form, set()).update(targets)
    return [Wish(form, tuple(sorted(t))) for form, t in found.items()]


def _is_leaf(form: Form) -> bool:
    return all(term.leaf for term, _ in form.terms)


def _of_control(
    forms: Forms, op: If | For | While, counts: Sequence[int]
) -> Iterator[tuple[Form, Sequence[int]]]:
    if isinstance(op, For):
        start, stop, step = (forms.of(v) for v in op.bounds)
        by = step.number
        if by is None or by > 0:
            yield stop - start, _multiples(counts, by or 1)
        else:
            yield start - stop, _multiples(counts, -by)
        return
    conditions = [op.condition] if isinstance(op, If) else [op.condition.yielded[0]]
    for condition in conditions:
        yield from _of_condition(
            forms, condition, counts if isinstance(op, While) else (-1, 0, 1, max(counts))
        )


def _multiples(counts: Sequence[int], step: int) -> list[int]:
    """Spans of loops that run so often, with and without a rest."""
    return [n * step + rest for n in counts for rest in range(min(step, 2))]


def _of_condition(
    forms: Forms, condition: Value, counts: Sequence[int]
) -> Iterator[tuple[Form, Sequence[int]]]:
    """Around where a comparison changes its mind; else every value of the launch by itself."""
    owner = condition.owner
    if isinstance(owner, S.Not | S.And | S.Or):
        for v in owner.operands:
            yield from _of_condition(forms, v, counts)
        return
    if isinstance(owner, S.Cmp):
        difference = forms.of(owner.a) - forms.of(owner.b)
        yield difference, (-1, 0, 1) if len(counts) == 4 else [s * n for n in counts for s in (1, -1)]
        return
    for leaf in forms.of(condition).leaves():
        yield Form(0, frozenset({(leaf, 1)})), counts


def _at_start(form: Form) -> Form:
    """The form where every loop around is in its first round, and what a loop carries is 0."""
    out = Form(form.constant)
    for term, factor in form.terms:
        if term.kind == "index":
            out = out.plus(_at_start(term.parts[0]), factor)
        elif term.kind == "carried":
            out = out.plus(_at_start(term.parts[2]), factor)
        elif term.kind == "value":
            continue
        else:
            out = out.plus(Form(0, frozenset({(_start_of(term), 1)})), factor)
    return out


def _start_of(term: Term) -> Term:
    if term.leaf:
        return term
    return Term(term.kind, tuple(_at_start(p) if isinstance(p, Form) else p for p in term.parts))


# Values that give a form its target ----------------------------------------------------------------------------------


def _solved(wishes: Sequence[Wish], wanted: Sequence[int]) -> Values | None:
    known: dict[Term, int] = {}
    for wish, target in zip(wishes, wanted, strict=True):
        _solve(wish.form, target, known)
    pairs = enumerate(zip(wishes, wanted, strict=True))
    unmet = tuple(k for k, (wish, target) in pairs if _value_of(wish.form, known) != target)
    if any(term.kind == "shape" and n < 0 for term, n in known.items()):
        return None
    return Values(known, unmet)


def _given(term: Term) -> bool:
    return term.kind in ("block.index", "block.count")


def _solve(form: Form, target: int, known: dict[Term, int]) -> bool:
    """Choose values that are still free so that the form has the value, where that is easy."""
    rest, free = target - form.constant, list[tuple[Term, int]]()
    for term, factor in _in_order(form):
        n = _value(term, known)
        if n is None:
            free.append((term, factor))
        else:
            rest -= factor * n
    if not free:
        return rest == 0
    (term, factor), *others = free
    for other, f in others:
        n = _settle(other, known)
        if n is None:
            return False
        rest -= f * n
    return _make(term, rest // factor, known)


@cache
def _in_order(form: Form) -> list[tuple[Term, int]]:
    """The terms that a form grows with first; always in the same order."""
    return sorted(form.terms, key=lambda item: (item[1] < 0, simplest_first(of_term(item[0]))))


def _make(term: Term, n: int, known: dict[Term, int]) -> bool:
    if term.leaf:
        known[term] = n
        return True
    forms = list(term.forms())
    if term.kind in ("floordiv", "div") and forms[1].number:
        by = forms[1].number
        return _solve(forms[0], n * by + by - 1, known)
    if term.kind == "mod" and forms[1].number:
        return _solve(forms[0], n, known) and n < forms[1].number
    if term.kind == "mul":
        last = _value_of(forms[1], known)
        if last is None:
            # 1, or what the values that are whole numbers can make it.
            _solve(forms[1], max(1, *(abs(f) for _, f in forms[1].terms)), known)
            last = _value_of(forms[1], known)
        # As close to n as it comes, from above.
        return last is not None and last != 0 and _solve(forms[0], -(-n // last), known) and n % last == 0
    if term.kind in ("min", "max"):
        return all([_solve(f, n, known) for f in forms])
    return False


def _settle(term: Term, known: dict[Term, int]) -> int | None:
    """The value of a term whose free values are as they are by default."""
    leaves = [term] if term.leaf else [leaf for f in term.forms() for leaf in f.leaves()]
    for leaf in leaves:
        known.setdefault(leaf, Values().of(leaf))
    return _value(term, known)


def _value(term: Term, known: dict[Term, int]) -> int | None:
    if term.leaf:
        return known.get(term, DEFAULTS[term.kind] if _given(term) else None)
    given = [_value_of(f, known) for f in term.forms()]
    if None in given or term.kind not in _KINDS:
        return None
    return _KINDS[term.kind](*given)


def _value_of(form: Form, known: dict[Term, int]) -> int | None:
    total = form.constant
    for term, factor in form.terms:
        n = _value(term, known)
        if n is None:
            return None
        total += factor * n
    return total


_KINDS = {
    "floordiv": lambda a, b: a // b if b else 0,
    "div": lambda a, b: abs(a) // b if a >= 0 else -(-a // b),
    "mod": lambda a, b: 0 if not b else abs(a) % abs(b) if a >= 0 else -(-a % abs(b)),
    "mul": lambda a, b: a * b,
    "min": min,
    "max": max,
}
