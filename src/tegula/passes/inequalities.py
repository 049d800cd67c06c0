"""Satisfiability of systems of linear equations and inequalities over the integers.

Variables are eliminated one by one (Fourier-Motzkin elimination). Every inequality is divided by the gcd of its
coefficients and its constant is rounded down, which is exact for integers, so that strides also distinguish elements.
The answer "infeasible" is a proof; an elimination that exceeds its limit stops with the answer "feasible"."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from math import gcd

Atom = Hashable
"""An integer variable."""
Form = tuple[Mapping[Atom, int], int]
"""A sum of coefficients, which are not 0, times variables, and a constant."""
MAX_INEQUALITIES = 160
"""The number of inequalities above which the elimination stops without a proof."""

ZERO: Form = ({}, 0)


def constant(n: int) -> Form:
    """A number as a linear form."""
    return {}, n


def plus(a: Form, b: Form, factor: int = 1) -> Form:
    """The linear form a + factor * b."""
    if not factor:
        return a
    if not b[0]:
        return a[0], a[1] + factor * b[1]
    total = dict(a[0])
    for atom, n in b[0].items():
        if new := total.get(atom, 0) + factor * n:
            total[atom] = new
        else:
            del total[atom]
    return total, a[1] + factor * b[1]


def times(a: Form, factor: int) -> Form:
    """A linear form times a number."""
    if factor == 1:
        return a
    return ({atom: factor * n for atom, n in a[0].items()}, factor * a[1]) if factor else ZERO


def substitute(form: Form, numbers: Mapping[Atom, int]) -> Form:
    """The form after substituting numbers for variables."""
    terms, number = form
    remaining = {atom: n for atom, n in terms.items() if atom not in numbers}
    return remaining, number + sum(n * numbers[atom] for atom, n in terms.items() if atom in numbers)


def less_than(a: Form, b: Form) -> Form:
    """The linear form that is non-negative if and only if a < b."""
    return plus(plus(b, a, -1), constant(-1))


def is_infeasible(equal: Iterable[Form], nonnegative: Iterable[Form]) -> bool:
    """Whether the system `equal` = 0, `nonnegative` >= 0 is proved to have no integer solution."""
    return are_infeasible(equal, nonnegative, [ZERO])


def are_infeasible(
    equal: Iterable[Form], nonnegative: Iterable[Form], alternatives: Collection[Form]
) -> bool:
    """Whether each of the systems `equal` = 0, `nonnegative` >= 0, alternative >= 0, for one of the alternatives, is
    proved to have no integer solution. The equations are solved once."""
    equations, rest = list(equal), [*nonnegative, *alternatives]
    while equations:
        equations.sort(key=lambda form: min(map(abs, form[0].values()), default=0))
        terms, number = equations.pop(0)
        if not terms:
            if number:
                return True
            continue
        if number % gcd(*terms.values()):
            return True
        atom = min(terms, key=lambda atom: abs(terms[atom]))
        equations = [_without(atom, (terms, number), form) for form in equations]
        rest = [_without(atom, (terms, number), form) for form in rest]
    common = rest[: len(rest) - len(alternatives)]
    return all(_is_contradictory([*common, other]) for other in rest[len(common) :])


def _without(atom: Atom, equation: Form, form: Form) -> Form:
    """A positive multiple of a form, with the variable `atom` eliminated by an equation (`equation` = 0)."""
    n = form[0].get(atom)
    if n is None:
        return form
    pivot = equation[0][atom]
    return plus(times(form, abs(pivot)), equation, -n if pivot > 0 else n)


Tightest = dict[frozenset[tuple[Atom, int]], Form]
"""The tightest inequality for each distinct sum of terms, by its terms, in order of first insertion, so that answers
are deterministic."""


def _is_contradictory(forms: Iterable[Form]) -> bool:
    remaining = _tightened({}, forms)
    while remaining is not None:
        counts: dict[Atom, list[int]] = {}
        for terms, _ in remaining.values():
            for atom, n in terms.items():
                count = counts.get(atom)
                if count is None:
                    count = counts[atom] = [0, 0]
                count[n > 0] += 1
        if not counts:
            return False
        atom = min(counts, key=lambda atom: counts[atom][0] * counts[atom][1] - sum(counts[atom]))
        if counts[atom][0] * counts[atom][1] > MAX_INEQUALITIES:
            return False
        remaining = _without_variable(atom, remaining)
        if remaining is not None and len(remaining) > MAX_INEQUALITIES:
            return False
    return True


def _tightened(known: Tightest, forms: Iterable[Form]) -> Tightest | None:
    """The known inequalities and further ones; None if an inequality never holds."""
    for terms, number in forms:
        if not terms:
            if number < 0:
                return None
            continue
        factor = gcd(*terms.values())
        if factor != 1:
            terms, number = {atom: n // factor for atom, n in terms.items()}, number // factor
        key = frozenset(terms.items())
        form = known.get(key)
        if form is None or number < form[1]:
            known[key] = terms, number
    return known


def _without_variable(atom: Atom, forms: Tightest) -> Tightest | None:
    """The inequalities that `forms` imply for the variables other than `atom`; None if one of them never holds."""
    others: Tightest = {}
    lower: list[Form] = []
    upper: list[Form] = []
    for key, form in forms.items():
        n = form[0].get(atom)
        if n is None:
            others[key] = form
        else:
            (lower if n > 0 else upper).append(form)
    sums = (plus(times(low, -high[0][atom]), high, low[0][atom]) for low in lower for high in upper)
    return _tightened(others, sums)
