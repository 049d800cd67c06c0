"""The conditions that hold on a path of the prover, and the conditions that follow from them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from math import gcd, inf, lcm
from typing import Any

from tegula.check.proof.models import KINDS, Model, counterexample
from tegula.check.proof.terms import (
    Atom,
    Condition,
    Monomial,
    Sum,
    conjunction,
    div,
    divided,
    eq,
    ge,
    inside,
    negation,
    number,
    of_nonzero,
    period,
    quotient,
    replaced,
)

DEPTH, MAX_PERIOD, MAX_PERIOD_OF_FACTS, MAX_FACTS, MAX_DISJUNCTIONS, MAX_MODELS = 3, 4096, 64, 200, 16, 8
MODEL_SEARCH, QUERY, RESIDUE_QUERY = 16, 400, 6_000
"""Work limits, in inequalities: of a query before the search for a countermodel starts, of a whole query, and of a
query by residues."""
EVALUATIONS = 10
"""The number of evaluations of conditions in models that count as one inequality."""


class OutOfWork(Exception):
    """The work has reached its limit."""


class Work:
    """The work of queries, in decided inequalities: the work done so far and its limit."""

    __slots__ = ("done", "limit")

    def __init__(self) -> None:
        self.done = 0
        self.limit: float = inf

    def require_rest(self) -> None:
        """Raise OutOfWork beyond the limit."""
        if self.done > self.limit:
            raise OutOfWork


class Known:
    """A set of conditions that hold. A symbol that they make equal to a polynomial is replaced by the polynomial
    (`substitution`)."""

    def __init__(self, other: Known | None = None) -> None:
        self.assumed: list[Condition] = list(other.assumed) if other else []
        self.true: set[Condition] = set(other.true) if other else set()
        self.facts: dict[Sum, Sum] = dict(other.facts) if other else {}
        """The polynomials that are at least 0, by their part without the constant term; of equal parts the one with the
        least constant term."""
        self.fact_count: int = other.fact_count if other else 0
        """The number of facts so far, with those that stronger facts have replaced."""
        self.facts_with: dict[tuple[Monomial, bool], tuple[Sum, ...]] = (
            dict(other.facts_with) if other else {}
        )
        """The facts in which a monomial occurs, by the monomial and whether its coefficient is positive."""
        self.ranges: dict[Atom, tuple[Any, Any]] = dict(other.ranges) if other else {}
        self.monomial_ranges: dict[Monomial, tuple[Any, Any]] = other.monomial_ranges if other else {}
        """Cached ranges of monomials; shared by copies until a range of an atom is added to one of them."""
        self.substitution: dict[Monomial, Sum] = dict(other.substitution) if other else {}
        self.quotients: frozenset[Atom] = other.quotients if other else frozenset()
        """The quotients by divisors that are not constants, whose bounds are among the facts."""
        self.disjunctions: list[tuple[Condition, ...]] = list(other.disjunctions) if other else []
        """Disjunctions that hold: at least one condition of each is true."""
        self.is_contradicted = other.is_contradicted if other else False
        """Whether a condition is known to be false under the others."""
        self.unchecked: list[Sum] = list(other.unchecked) if other else []
        """The facts of the last condition that have not been compared with the others yet."""
        self.nonnegative_cache: dict[Sum, bool] = other.nonnegative_cache if other else {}
        """Cached results whether polynomials are at least 0; shared by copies until a condition is added to one of
        them."""
        self.truth_cache: dict[Condition, bool | None] = other.truth_cache if other else {}
        """Cached truth values of conditions, shared like `nonnegative_cache`."""
        self.models: list[Model] = other.models if other else [Model(k, {}) for k in range(len(KINDS))]
        """Models in which all assumed conditions hold."""
        self.starting_models: list[Model] = other.starting_models if other else self.models
        """Models of earlier sets of conditions, from which repairs start; empty where models are not used."""
        self.searched_for_model = other.searched_for_model if other else False
        """Whether a model was searched for since the last condition."""
        self.query_limit: float = inf
        """The amount of work, in inequalities, at which the current query is abandoned."""
        self.work: Work = other.work if other else Work()
        """The work of this object and of all its copies."""

    def empty_copy(self) -> Known:
        """An empty set of conditions that tries the same models first."""
        fresh = Known()
        fresh.models = fresh.starting_models = [*self.models, *fresh.models][:MAX_MODELS]
        fresh.work = self.work
        return fresh

    def assume(self, c: Condition) -> None:
        """Add a condition, and the facts and equalities that follow."""
        self.assumed.append(c)
        self.unchecked = []
        satisfied = [model for model in self.models if model.holds(c)]
        if len(satisfied) < len(self.models):
            self.starting_models = [
                *satisfied,
                *(model for model in self.starting_models if model not in satisfied),
            ]
        self.models, self.searched_for_model = satisfied, False
        self._assume(self.normalised(c))
        self.true.add(c)
        if self.disjunctions:
            self._narrow()
        self._drop_undecided()

    def _drop_undecided(self) -> None:
        """Drop the cached undecided queries, which a new condition may decide."""
        self.nonnegative_cache = {q: True for q, result in self.nonnegative_cache.items() if result}
        self.truth_cache = {c: answer for c, answer in self.truth_cache.items() if answer is not None}

    def _narrow(self) -> None:
        """Assume the single condition that is not excluded, for each disjunction with one such condition."""
        changed = True
        while changed:
            changed = False
            for disjunction in list(self.disjunctions):
                remaining = [c for c in disjunction if not self._is_excluded(self.normalised(c))]
                if len(remaining) < 2:
                    self.disjunctions.remove(disjunction)
                    c = self.normalised(remaining[0]) if remaining else False
                    if (
                        c not in self.true
                    ):  # a condition may have a case split that leaves this condition again
                        self._assume(c)
                        changed = True

    def _is_excluded(self, c: Condition) -> bool:
        """Whether the negation of a condition follows from single facts, without a case for each residue."""
        return not any(model.holds(c) for model in self.models) and self._decide(c, False, 1) is False

    def _assume(self, c: Condition) -> None:
        if isinstance(c, bool):
            self.is_contradicted = self.is_contradicted or not c
            return
        self.true.add(c)
        self._drop_undecided()
        kind, *args = c
        if kind == "and":
            self._assume(args[0])
            self._assume(args[1])
        elif kind == "ge":
            self._add_fact(args[0])
        elif kind == "eq":
            self._use_remainder(args[0])
            self._add_fact(args[0])
            self._add_fact(-args[0])
            self._use_equality(self.normalised(args[0]))
        elif kind == "not" and args[0][0] == "or":
            self._assume(negation(args[0][1]))
            self._assume(negation(args[0][2]))
        if len(self.disjunctions) < MAX_DISJUNCTIONS and (row := case_split(c)) is not None:
            self.disjunctions.append(row)

    def _use_remainder(self, p: Sum) -> None:
        """Use that p = 0, if this means q mod n = r: then q = n (q div n) + r, and an atom of q is replaced by a
        polynomial."""
        p = self.normalised(p)
        remainders = [a for a in p.atoms() if a.kind == "mod"]
        if len(remainders) != 1 or p.rest not in (Sum({(remainders[0],): 1}), Sum({(remainders[0],): -1})):
            return
        q, n = remainders[0].subterms
        r = -p.coefficients.get((), 0) * p.rest.coefficients[(remainders[0],)]
        for m, c in sorted(q.coefficients.items(), reverse=True):
            if len(m) == 1 and abs(c) == 1 and m[0].kind in ("sym", "app"):
                rest = q - Sum({m: c})
                if m[0] not in inside(rest) and m not in self.substitution:
                    self._replace(m, (div(q, n) * n + r - rest) * c)
                return

    def _add_fact(self, p: Sum) -> None:
        p = self.normalised(p)
        if p.value is not None:
            self.is_contradicted = self.is_contradicted or p.value < 0
            return
        g = gcd(*p.rest.coefficients.values())
        if g > 1:
            p = Sum({m: c // g for m, c in p.coefficients.items()})
        if self.fact_count > MAX_FACTS or self._is_weaker_than_fact(p):
            return
        self.unchecked.append(p)
        is_zero = not any(model.number(p) for model in self.models) and self.nonnegative(-p, 1)
        self._drop_undecided()
        self.fact_count += 1
        weaker = self.facts.get(p.rest)
        self.facts[p.rest] = p
        for m, c in p.rest.coefficients.items():
            facts = self.facts_with.get((m, c > 0), ())
            self.facts_with[m, c > 0] = (
                (*facts, p) if weaker is None else tuple(p if q is weaker else q for q in facts)
            )
        for m, c in p.coefficients.items():
            rest_high = self.range(p - Sum({m: c}))[1]
            if len(m) == 1 and rest_high != inf:
                low, high = self.ranges.get(m[0], (-inf, inf))
                self._set_range(
                    m[0],
                    (max(low, -(rest_high // c)), high) if c > 0 else (low, min(high, rest_high // -c)),
                )
        for m, c in p.coefficients.items():
            if len(m) == 1 and (m[0].kind, c > 0) in (("min", True), ("max", False)):
                for q in m[0].subterms:
                    self._add_fact(p + (q - Sum({m: 1})) * c)
            elif len(m) == 1 and m[0].kind == "div" and abs(c) == 1:
                self._bound_dividend(p - Sum({m: c}), m[0], c)
            elif len(m) == 1 and m[0] not in self.quotients and (quotient := self.quotient(m[0])) is not None:
                self.quotients = self.quotients | {m[0]}
                rest = quotient[0] - quotient[1] * Sum({m: 1})
                self._add_fact(rest)
                self._add_fact(quotient[1] - 1 - rest)
        if (expanded := without_remainders(p)) is not p:
            self._add_fact(expanded)
        if is_zero:
            self._use_equality(p)

    def _bound_dividend(self, rest: Sum, a: Atom, sign: int) -> None:
        """Add the bound on the dividend of a quotient a that follows from rest + a >= 0, or from rest - a >= 0."""
        dividend, n = a.subterms
        self._add_fact(rest * n + (dividend if sign > 0 else number(n - 1) - dividend))

    def _use_equality(self, p: Sum) -> None:
        """Use that p = 0: replace one symbol of p, from now on, by the polynomial that it equals."""
        for m, c in sorted(p.coefficients.items(), reverse=True):
            if len(m) == 1 and abs(c) == 1:
                rest = (Sum({m: c}) - p) * c
                if m[0] in inside(rest) or (m[0].kind != "sym" and rest.value is None):
                    continue
                self._replace(m, rest)
                return

    def _replace(self, m: Monomial, replacement: Sum) -> None:
        self.substitution = {k: replaced(q, {m: replacement}) for k, q in self.substitution.items()} | {
            m: replacement
        }
        for q in list(self.facts.values()):
            changed = replaced(q, {m: replacement})
            if changed != q and changed.value is None:
                self._add_fact(changed)
            elif changed.value is not None and changed.value < 0:
                self.is_contradicted = True

    @property
    def absurd(self) -> bool:
        """Whether the last condition is known to contradict the others."""
        while self.unchecked and not self.is_contradicted:
            self.is_contradicted = self.nonnegative(self.normalised(-self.unchecked.pop() - 1))
        return self.is_contradicted

    def normalised(self, x: Any) -> Any:
        """A polynomial or condition with symbols replaced by the polynomials that they equal."""
        if not self.substitution or x is None or isinstance(x, bool):
            return x
        x = replaced(x, self.substitution)
        return with_dividends(x) if isinstance(x, Sum) else x

    # Ranges ----------------------------------------------------------------------------------------------------------

    def range(self, p: Sum) -> tuple[Any, Any]:
        """The bounds of a polynomial that follow from the ranges of its atoms alone, which may be infinite."""
        low: Any = 0
        high: Any = 0
        for m, c in p.coefficients.items():
            a, b = self._range_of_monomial(m)
            low, high = (low + a * c, high + b * c) if c > 0 else (low + b * c, high + a * c)
        return low, high

    def _minimums(self, p: Sum) -> dict[Monomial, Any]:
        """The least value of each monomial of a polynomial, with its factor, that follows from ranges."""
        ranges = self.monomial_ranges
        return {
            m: (ranges.get(m) or self._range_of_monomial(m))[c < 0] * c for m, c in p.coefficients.items()
        }

    def _set_range(self, x: Atom, bounds: tuple[Any, Any]) -> None:
        if self.ranges.get(x) != bounds:
            self.ranges[x] = bounds
            self.monomial_ranges = {}

    def _range_of_monomial(self, m: Monomial) -> tuple[Any, Any]:
        """The range of a monomial."""
        known = self.monomial_ranges.get(m)
        if known is not None:
            return known
        a: Any = 1
        b: Any = 1
        if len(m) == 1:
            a, b = self._range(m[0])
        for x in dict.fromkeys(m) if len(m) > 1 else ():
            ends = power(*self._range(x), m.count(x))
            corners = [0 if u == 0 or v == 0 else u * v for u in (a, b) for v in ends]
            a, b = min(corners), max(corners)
        self.monomial_ranges[m] = a, b
        return a, b

    def _range(self, x: Atom) -> tuple[Any, Any]:
        low, high = x.limits
        if x.kind == "div":
            a, b = self.range(x.subterms[0])
            low, high = a if a == -inf else a // x.subterms[1], b if b == inf else b // x.subterms[1]
        elif x.kind == "app" and (division := quotient(x)) is not None:
            a, b = self.range(division[0])
            if a < low or b > high:  # a certificate may name a quotient that its type cannot represent
                low, high = -max(-a, b), max(-a, b)
        elif x.kind in ("min", "max", "ite"):
            (a, b), (c, d) = self.range(x.subterms[-2]), self.range(x.subterms[-1])
            low = max(a, c) if x.kind == "max" else min(a, c)
            high = min(b, d) if x.kind == "min" else max(b, d)
        known = self.ranges.get(x)
        return (low, high) if known is None else (max(known[0], low), min(known[1], high))

    # Entailment ------------------------------------------------------------------------------------------------------

    def nonnegative(self, p: Sum, depth: int = DEPTH) -> bool:
        """Whether p >= 0 follows from ranges, or from ranges and facts that cancel the monomials which may be
        negative."""
        if depth < DEPTH:
            if self.query_limit < inf:
                return self._nonnegative(p, depth)
            is_refuted = any(model.number(p) < 0 for model in self.models)
            return not is_refuted and self._limited_nonnegative(p, depth, QUERY)
        cached = self.nonnegative_cache.get(p)
        if cached is None:
            cached = self.nonnegative_cache[p] = self._search_nonnegative(p)
        return cached

    def _search_nonnegative(self, p: Sum) -> bool:
        """Whether p >= 0 follows; a long search is interrupted to look for a model in which p is negative."""
        low = self.range(p)[0]
        if low >= 0 or p.value is not None:
            return low >= 0
        if (factor := gcd(*p.rest.coefficients.values())) > 1:
            return self.nonnegative(Sum({m: c // factor for m, c in p.coefficients.items()}))
        self.work.require_rest()
        if not self.models and not self.searched_for_model and self.starting_models:
            self.searched_for_model = True
            self._refuted(True)
        if any(model.number(p) < 0 for model in self.models):
            return False
        if self.starting_models:
            limit = min(self.query_limit, self.work.done + MODEL_SEARCH)
            if self._limited_nonnegative(p, DEPTH, MODEL_SEARCH):
                return True
            if self.work.done <= limit or self._refuted(ge(-p - 1)):
                return False
        return self._limited_nonnegative(p, DEPTH, QUERY)

    def _limited_nonnegative(self, p: Sum, depth: int, work: int) -> bool:
        """Whether p >= 0 follows, as far as `work` inequalities show."""
        outer_limit = self.query_limit
        self.query_limit = min(outer_limit, self.work.done + work)
        try:
            return self._nonnegative(p, depth, depth == DEPTH)
        finally:
            self.query_limit = outer_limit

    def _refuted(self, c: Condition) -> bool:
        """Whether a model of the assumptions and a condition was found; later queries try this model too."""
        model, evaluations = counterexample(self.starting_models, [*self.assumed, c])
        self.work.done += evaluations // EVALUATIONS
        if model is not None:
            self.models = [model, *self.models][:MAX_MODELS]
            self.starting_models = [model, *self.starting_models][: 2 * MAX_MODELS]
        return model is not None

    def _nonnegative(self, p: Sum, depth: int, first: bool = False) -> bool:
        self.work.done += 1
        minimums = self._minimums(p)
        if sum(minimums.values()) >= 0:
            return True
        if self._is_weaker_than_fact(p):
            return True
        if depth == 0 or self.work.done > self.query_limit:
            return False
        for m, c in p.coefficients.items():
            if len(m) == 1 and m[0].kind in ("min", "max", "ite"):
                operands = m[0].subterms[-2:]
                if m[0].kind == "ite" or (m[0].kind == "min") == (c > 0):
                    return all(self.nonnegative(replaced(p, {m: q}), depth) for q in operands)
                if any(self.nonnegative(p + (q - Sum({m: 1})) * c, depth) for q in operands):
                    return True
        negative = [(low, m) for m, low in minimums.items() if m and low < 0]
        unbounded = [m for low, m in negative if low == -inf]
        if unbounded:
            cancelled = [min(unbounded)]
        else:
            by_minimum = negative or ([(low, m) for m, low in minimums.items() if m] if first else [])
            cancelled = [m for _, m in sorted(by_minimum)]
        for m in cancelled:
            for q in self._cancelling_facts(m, p):
                if self.nonnegative(cancelling(p, q, m), depth - 1):
                    return True
        for m in p.coefficients:
            if len(m) == 1 and (division := self.quotient(m[0])) is not None:
                # p is an integer, so y p > -y suffices for the divisor y
                return self.nonnegative(p * division[1] + division[1] - 1, depth - 1)
        expanded = without_remainders(p) if sum(minimums.values()) == -inf else p
        return expanded is not p and self.nonnegative(expanded, depth)

    def _is_weaker_than_fact(self, p: Sum) -> bool:
        """Whether p >= 0 follows from a fact that differs by a constant at most."""
        fact = self.facts.get(p.rest)
        return fact is not None and p.coefficients.get((), 0) >= fact.coefficients.get((), 0)

    def quotient(self, a: Atom) -> tuple[Sum, Sum] | None:
        """The dividend and the divisor of an atom that is a quotient rounded down, whose divisor is not a constant and
        is known to be positive; None for other atoms."""
        division = quotient(a)
        if division is None or not self.nonnegative(division[1] - 1, 1):
            return None
        return division if a.subterms[0][0] == "floordiv" or self.nonnegative(division[0], 1) else None

    def _cancelling_facts(self, m: Monomial, p: Sum) -> Iterator[Sum]:
        """The facts that cancel a monomial m of p, in which it has the same sign: facts that contain m, multiples of a
        fact by a non-negative monomial that contain m, and the bounds of quotients in p."""
        is_positive = p.coefficients[m] > 0
        yield from self.facts_with.get((m, is_positive), ())
        for q in self._further_facts(m, p):
            d = q.coefficients.get(m, 0)
            if d and (d > 0) == is_positive:
                yield q

    def _further_facts(self, m: Monomial, p: Sum) -> Iterator[Sum]:
        for x, y in (m, m[::-1]) if len(m) == 2 else ():
            if self._range(y)[0] >= 0:
                factor = Sum({(y,): 1})
                yield from (q * factor for q in self._facts_containing((x,)))
        if len(m) == 1 and any(len(pair) == 2 for pair in p.coefficients) and self._range(m[0])[0] >= 0:
            factor = Sum({m: 1})
            for x in (
                pair[1 - pair.index(m[0])] for pair in p.coefficients if len(pair) == 2 and m[0] in pair
            ):
                yield from (q * factor for q in self._facts_containing((x,)))
        for k in p.coefficients:
            if len(k) == 1 and k[0].kind == "div":
                dividend, n = k[0].subterms
                rest = dividend - Sum({k: n})
                for q in (rest, number(n - 1) - rest):
                    if k == m or p.coefficients[k] * abs(q.coefficients.get(m, 0)) == q.coefficients[k] * abs(
                        p.coefficients[m]
                    ):
                        yield q
        for a in dict.fromkeys(a for k in p.coefficients if len(k) > 1 for a in k):
            if (division := self.quotient(a)) is not None:
                rest = division[0] - division[1] * Sum({(a,): 1})
                yield from (rest, division[1] - 1 - rest)

    def _facts_containing(self, m: Monomial) -> tuple[Sum, ...]:
        return (*self.facts_with.get((m, True), ()), *self.facts_with.get((m, False), ()))

    def resolved(self, x: Any) -> Any:
        """A polynomial or condition with each minimum, maximum and choice replaced by the operand that is known to be
        selected."""
        for a in sorted(inside(x)):
            if a.kind == "ite" and (truth := self.holds(a.subterms[0], False)) is not None:
                return self.resolved(replaced(x, {(a,): a.subterms[1 if truth else 2]}))
            if a.kind in ("min", "max"):
                p, q = a.subterms
                less = self.nonnegative(q - p, DEPTH - 1)
                if less or self.nonnegative(p - q, DEPTH - 1):
                    return self.resolved(replaced(x, {(a,): p if less == (a.kind == "min") else q}))
        return x

    def holds(self, c: Condition, residues: bool = True) -> bool | None:
        """Whether a condition follows, or its negation; None where neither does. `residues`: whether to try
        residues."""
        if residues and not isinstance(c, bool):
            if c not in self.truth_cache:
                self.truth_cache[c] = self._decide(self.resolved(c), True)
            return self.truth_cache[c]
        return self._decide(c, residues)

    def _decide(self, c: Condition, residues: bool, depth: int = DEPTH) -> bool | None:
        if isinstance(c, bool):
            return c
        if c in self.true:
            return True
        if negation(c) in self.true or self._undecided(c):
            return False if negation(c) in self.true else None
        kind, *args = c
        if kind == "not":
            inner = self._decide(args[0], residues, depth) if depth < DEPTH else self.holds(args[0], residues)
            return None if inner is None else not inner
        if kind in ("and", "or"):
            answers = {
                self._decide(x, residues, depth) if depth < DEPTH else self.holds(x, residues) for x in args
            }
            dominant = kind == "or"
            return dominant if dominant in answers else None if None in answers else not dominant
        if kind == "is":
            return None
        p = args[0]
        if kind == "ge":
            if self.nonnegative(p, depth):
                return True
            if self.nonnegative(-p - 1, depth):
                return False
            if residues and self.nonnegative(p + 1, 1) and self._contradicts_remainders(p + 1):
                return True
        elif p.coefficients.get((), 0) % (gcd(*p.rest.coefficients.values()) or 1):
            return False
        elif self.nonnegative(p, depth) and self.nonnegative(-p, depth):
            return True
        elif self.nonnegative(p - 1, depth) or self.nonnegative(-p - 1, depth):
            return False
        if not residues:
            return None
        chooses = any(a.kind == "ite" for a in inside(c))  # residues decide choices of remainders
        simpler = c if chooses else self._resolve_quotients(c)
        return self._for_each_residue(c) if simpler == c else self._decide(simpler, True)

    def _resolve_quotients(self, c: Condition) -> Condition:
        """A condition without the quotients q div n that are known, by bounds of q, and without the remainders q mod n
        where these quotients are known."""
        for a in sorted(inside(c)):
            if a.kind not in ("mod", "div"):
                continue
            q, n = a.subterms
            low, high = self.range(self.normalised(div(q, n)))
            if low != high and self.nonnegative(q) and self.nonnegative(number(n - 1) - q):
                low = high = 0
            if low == high:
                value = number(low) if a.kind == "div" else q - low * n
                return self._resolve_quotients(replaced(c, {(a,): value}))
        return c

    def _undecided(self, c: Condition) -> bool:
        """Whether a condition is true in one model and false in another, so that neither it nor its negation
        follows."""
        truths = map(Model.holds, self.models, repeat(c))
        first = next(truths, None)
        return any(truth != first for truth in truths)

    def _contradicts_remainders(self, p: Sum) -> bool:
        """Whether p = 0 contradicts a known condition on remainders."""
        for m, k in sorted(p.coefficients.items(), reverse=True):
            if len(m) == 1 and m[0].kind == "sym" and abs(k) == 1:
                substitution = {m: (Sum({m: k}) - p) * k}
                related = (t for t in self.true if m[0] in inside(t) and divided(t))
                return any(self.holds(replaced(t, substitution), False) is False for t in related)
        return False

    def _for_each_residue(self, c: Condition) -> bool | None:
        """The truth value of a condition, if it is the same for each residue of a dividend in the condition or in a
        known condition about one of its atoms; else None."""
        own_atoms = inside(c)
        substitution = {m: q for m, q in self.substitution.items() if m[0].kind == "sym"}
        true = [
            t for t in (replaced(t, substitution) for t in self.true) if not own_atoms.isdisjoint(inside(t))
        ]
        for base in dict.fromkeys(x for t in (c, *true) for x in divided(t)):
            pivot = next(
                ((m, k) for m, k in sorted(base.coefficients.items(), reverse=True) if abs(k) == 1), None
            )
            related = [t for t in true if base in divided(t)]
            n = period(c, base)
            if n == 1 and (n := lcm(*(period(t, base) for t in related))) > MAX_PERIOD_OF_FACTS:
                continue
            if pivot is None or not 1 < n <= MAX_PERIOD:
                continue
            truth = self._truth_over_residues(c, related, base, n, pivot)
            if truth is not None:
                return truth
        return None

    def _truth_over_residues(
        self, c: Condition, related: list[Condition], base: Sum, n: int, pivot: tuple[Monomial, int]
    ) -> bool | None:
        """The truth value of a condition, if it is the same for each residue of `base` by n that the facts and the
        known conditions `related` allow; else None. A model of the facts says which value this has to be."""
        truth = self.models[0].holds(c) if self.models else None
        agreeing: list[Residue] = []
        work_before, has_tried_models = self.work.done, not self.starting_models
        for r in sorted(
            range(n), key=lambda r: (r & -r) or n, reverse=True
        ):  # wraps at powers of two fail soonest
            if not has_tried_models and self.work.done > work_before + MODEL_SEARCH:
                has_tried_models = True
                if self._refuted(negation(c) if self.starting_models[0].holds(c) else c):
                    return None
            if self.work.done > work_before + RESIDUE_QUERY:
                return None
            self.work.done += 1
            self.work.require_rest()
            residue = self._residue(base, n, r, pivot)
            answer = residue.truth(c)
            if answer is None or truth not in (answer, None):
                if residue.is_excluded(related):
                    continue
                answer = residue.truth(c)
            if answer is None:
                return None
            if truth not in (answer, None):
                if not all(other.is_excluded(related) for other in agreeing):
                    return None
                agreeing.clear()
            truth = answer
            agreeing.append(residue)
        return truth

    def _residue(self, base: Sum, n: int, r: int, pivot: tuple[Monomial, int]) -> Residue:
        """The case in which `base` is n h + r, with models that have this residue. The monomial `pivot` of the base is
        replaced."""
        h = Atom("sym", f"h{n}")
        m, k = pivot
        known = Known(self)
        known.nonnegative_cache, known.truth_cache = {}, {}
        known._set_range(h, (0 if self.nonnegative(base) else -inf, inf))
        known.assumed.append(eq(base - Sum({(h,): n}) - r))
        known.models, others = [], list[Model]()
        for model in self.starting_models:
            quotient, remainder = divmod(model.number(base), n)
            case = model.with_number(h, quotient)
            (known.models if remainder == r and model in self.models else others).append(case)
        known.starting_models, known.searched_for_model = [*known.models, *others], True
        facts = [q for q in self.facts.values() if m in q.coefficients]
        return Residue(known, {m: (Sum({(h,): n}) + r - (base - Sum({m: k}))) * k}, facts)

    def solved(self, c: Condition) -> Condition | None:
        """An equation of a symbol and a sum that follows from a condition: the condition states a remainder of the
        symbol, and the facts allow a single number with this remainder. None if there is no such equation."""
        if isinstance(c, bool) or c[0] != "eq":
            return None
        remainders = [a for a in c[1].atoms() if a.kind == "mod"]
        if len(remainders) != 1:
            return None
        base, n = remainders[0].subterms
        r = (c[1] - Sum({(remainders[0],): 1})).value or (c[1] + Sum({(remainders[0],): 1})).value or 0
        h = Atom("sym", "h")
        for m, k in base.coefficients.items():
            if len(m) != 1 or abs(k) != 1 or m[0].kind != "sym":
                continue
            x = (Sum({(h,): n}) + (Sum({m: k}) - base + abs(r))) * k
            rows: list[Sum] = []
            for q in self.facts.values():
                if m in q.coefficients:
                    p = replaced(q, {m: x})
                    g = gcd(*p.rest.coefficients.values()) or 1
                    rows.append(Sum({j: i // g for j, i in p.coefficients.items()}))
            for p in rows:
                if abs(i := p.coefficients.get((h,), 0)) == 1 and -p in rows:
                    value = (Sum({(h,): i}) - p) * i
                    return eq(Sum({m: 1}) - replaced(x, {(h,): value}))
        return None

    def equal(self, p: Sum, q: Sum) -> bool:
        """Whether two polynomials are known to be equal."""
        if p == q:
            return True
        d = p - q
        return not any(map(lambda model: model.number(d), self.models)) and self.holds(eq(d)) is True

    def at_least(self, p: Sum, q: Sum | int) -> bool:
        """Whether the inequality p >= q is known, without a case for each residue."""
        return self.holds(ge(p - number(q)), False) is True


def with_dividends(p: Sum) -> Sum:
    """A polynomial with q for n (q div n) + q mod n."""
    for m, c in p.coefficients.items():
        if len(m) == 1 and m[0].kind == "mod":
            q, n = m[0].subterms
            multiple = div(q, n) * n * c
            if all(p.coefficients.get(k) == i for k, i in multiple.coefficients.items()):
                p += q * c - multiple - Sum({m: c})
    return p


def without_remainders(p: Sum) -> Sum:
    """A polynomial with q - n (q div n) for each remainder q mod n in its linear terms."""
    for m, c in p.coefficients.items():
        if len(m) == 1 and m[0].kind == "mod":
            q, n = m[0].subterms
            p += (q - div(q, n) * n - Sum({m: 1})) * c
    return p


def cancelling(p: Sum, q: Sum, m: Monomial) -> Sum:
    """A polynomial without the monomial m, from which p >= 0 follows if it is at least 0 and the fact q >= 0 holds: a
    combination of p and q, divided by the common factor of its coefficients."""
    c, d = abs(p.coefficients[m]), abs(q.coefficients[m])
    out = {k: n * d for k, n in p.coefficients.items()} if d > 1 else dict(p.coefficients)
    for k, n in q.coefficients.items():
        total = out.get(k, 0) - n * c
        if total:
            out[k] = total
        else:
            del out[k]
    constant = out.pop((), 0) + d - 1
    g = gcd(*out.values())
    if g > 1:
        out, constant = {k: n // g for k, n in out.items()}, constant // g
    if constant:
        out[()] = constant
    return of_nonzero(out)


class Residue:
    """What is known where a sum has one remainder: `substitution` replaces a monomial of the sum in conditions, and
    `facts` contain this monomial."""

    def __init__(self, known: Known, substitution: dict[Monomial, Sum], facts: list[Sum]) -> None:
        self.known, self.substitution, self.facts = known, substitution, facts

    def truth(self, c: Condition) -> bool | None:
        """The truth value of a condition in this case, without further residues; None if it is unknown."""
        return self.known.holds(replaced(c, self.substitution), False)

    def is_excluded(self, related: list[Condition]) -> bool:
        """Whether a known condition of `related`, or the facts, contradict this remainder. The facts are known
        afterwards in the form that they have in this case."""
        self.known.searched_for_model = False
        if not self.known.models and any(self.truth(t) is False for t in related):
            return True
        self.known = Known(self.known)
        for q in self.facts:
            self.known._add_fact(replaced(q, self.substitution))
        return self.known.absurd


def power(low: Any, high: Any, n: int) -> tuple[Any, Any]:
    """The range of the n-th power of a number in a range."""
    if n % 2:
        return low**n, high**n
    ends = (abs(low) ** n, abs(high) ** n)
    return 0 if low <= 0 <= high else min(ends), max(ends)


def case_split(c: Condition) -> tuple[Condition, ...] | None:
    """The operands of a condition that is equivalent to a disjunction; None for other conditions."""
    if isinstance(c, bool) or c[0] == "or":
        return None if isinstance(c, bool) else c[1:]
    inner = c[1] if c[0] == "not" else c
    if c[0] == "not" and inner[0] == "and":
        return tuple(map(negation, inner[1:]))
    if c[0] == "not" and inner[0] == "eq":
        return ge(inner[1] - 1), ge(-inner[1] - 1)
    for a in sorted(inner[1].atoms()) if c[0] in ("ge", "eq") else ():
        k = c[1].coefficients.get((a,), 0) if c[0] == "ge" else 0
        if k and a.kind == ("min" if k < 0 else "max"):  # it is one of its operands
            first, second = (c[1] + (q - Sum({(a,): 1})) * k for q in a.subterms)
            return ge(first), ge(second)
        if a.kind == "ite":
            if_true, if_false = (replaced(c, {(a,): q}) for q in a.subterms[1:])
            return conjunction(a.subterms[0], if_true), conjunction(negation(a.subterms[0]), if_false)
    return None
