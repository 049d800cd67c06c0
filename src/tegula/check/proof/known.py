"""The conditions that hold on a path of the prover, and their entailment."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd, inf, lcm
from typing import Any

from tegula.check.proof.models import KINDS, Model, counterexample
from tegula.check.proof.terms import (
    Atom,
    Condition,
    Monomial,
    Sum,
    atom,
    conjunction,
    div,
    divided,
    eq,
    ge,
    inside,
    negation,
    number,
    period,
    quotient,
    replaced,
)

DEPTH, PERIOD, STRIP, MAX_FACTS, MAX_SIDES, MAX_MODELS = 3, 4096, 64, 200, 16, 8
SHORT, LONG, LONGEST = 16, 400, 6_000
"""Work limits, in inequalities: the search for a countermodel starts, a query is abandoned, and a query by residues is
abandoned."""
EVALUATIONS = 10
"""The number of conditions that are evaluated in a model in the time of one inequality."""


class OutOfWork(Exception):
    """The work has reached its limit."""


class Work:
    """The work of queries, in inequalities that are decided: the work done so far and its limit."""

    __slots__ = ("done", "limit")

    def __init__(self) -> None:
        self.done = 0
        self.limit: float = inf


class Known:
    """A set of conditions that hold. A symbol that they make equal to a polynomial is replaced by the polynomial
    (`same`)."""

    def __init__(self, other: Known | None = None) -> None:
        self.assumed: list[Condition] = list(other.assumed) if other else []
        self.true: set[Condition] = set(other.true) if other else set()
        self.facts: list[Sum] = list(other.facts) if other else []
        self.least: dict[Sum, int] = dict(other.least) if other else {}
        """The least constant term among facts p >= 0 with equal p apart from that term."""
        self.ranges: dict[Atom, tuple[Any, Any]] = dict(other.ranges) if other else {}
        self.same: dict[Monomial, Sum] = dict(other.same) if other else {}
        self.quotients: frozenset[Atom] = other.quotients if other else frozenset()
        """Quotients by unknown numbers whose bounds are among the facts."""
        self.sides: list[tuple[Condition, ...]] = list(other.sides) if other else []
        """Disjunctions, in each of which one condition holds."""
        self.absurd = other.absurd if other else False
        self.shown: dict[Sum, bool] = other.shown if other else {}
        """Cached results whether polynomials are at least 0; shared by copies until a condition is added to one of
        them."""
        self.answers: dict[Condition, bool | None] = other.answers if other else {}
        """Cached truth values of conditions, shared in the same way."""
        self.models: list[Model] = other.models if other else [Model(k, {}) for k in range(len(KINDS))]
        """Models in which all assumed conditions hold."""
        self.near: list[Model] = other.near if other else self.models
        """Models of earlier sets of conditions; empty where models are not used."""
        self.sought = other.sought if other else False
        """Whether a model was searched for since the last condition."""
        self.most: float = inf
        """The amount of work at which a query is abandoned, in inequalities."""
        self.work: Work = other.work if other else Work()
        """The work so far of this object and of all copies."""

    def empty_copy(self) -> Known:
        """An empty set of conditions that tries the same models first."""
        fresh = Known()
        fresh.models = fresh.near = [*self.models, *fresh.models][:MAX_MODELS]
        fresh.work = self.work
        return fresh

    def assume(self, c: Condition) -> None:
        """Add a condition, and the facts and equalities that follow."""
        self.assumed.append(c)
        satisfied = [model for model in self.models if model.holds(c)]
        if len(satisfied) < len(self.models):
            self.near = [*satisfied, *(model for model in self.near if model not in satisfied)]
        self.models, self.sought = satisfied, False
        self._assume(self.now(c))
        self.true.add(c)
        if self.sides:
            self._narrow()
        self._drop_undecided()

    def _drop_undecided(self) -> None:
        """Drop the cached undecided queries, which a new condition may decide."""
        self.shown = {q: True for q, result in self.shown.items() if result}
        self.answers = {c: answer for c, answer in self.answers.items() if answer is not None}

    def _narrow(self) -> None:
        """Assume the last condition of each disjunction all of whose other conditions are excluded."""
        changed = True
        while changed:
            changed = False
            for row in list(self.sides):
                left = [c for c in row if self.holds(self.now(c), False) is not False]
                if len(left) < 2:
                    self.sides.remove(row)
                    self._assume(self.now(left[0]) if left else False)
                    changed = True

    def _assume(self, c: Condition) -> None:
        if isinstance(c, bool):
            self.absurd = self.absurd or not c
            return
        self.true.add(c)
        self._drop_undecided()
        kind, *args = c
        if kind == "and":
            self._assume(args[0])
            self._assume(args[1])
        elif kind == "ge":
            self._fact(args[0])
        elif kind == "eq":
            self._remainder(args[0])
            self._fact(args[0])
            self._fact(-args[0])
            self._equal(self.now(args[0]))
        elif kind == "not" and args[0][0] == "or":
            self._assume(negation(args[0][1]))
            self._assume(negation(args[0][2]))
        if len(self.sides) < MAX_SIDES and (row := case_split(c)) is not None:
            self.sides.append(row)

    def _remainder(self, p: Sum) -> None:
        """Use that p = 0: if this says that q mod n = r, then q = n (q div n) + r, which gives an atom of q as a
        polynomial."""
        p = self.now(p)
        remainders = [a for a in p.atoms() if a.kind == "mod"]
        if len(remainders) != 1 or p.rest not in (Sum({(remainders[0],): 1}), Sum({(remainders[0],): -1})):
            return
        q, n = remainders[0].subterms
        r = -p.parts.get((), 0) * p.rest.parts[(remainders[0],)]
        for m, c in sorted(q.parts.items(), reverse=True):
            if len(m) == 1 and abs(c) == 1 and m[0].kind in ("sym", "app"):
                rest = q - Sum({m: c})
                if m[0] not in inside(rest) and m not in self.same:
                    self._replace(m, (div(q, n) * n + r - rest) * c)
                return

    def _fact(self, p: Sum) -> None:
        p = self.now(p)
        if p.value is not None:
            self.absurd = self.absurd or p.value < 0
            return
        g = gcd(*p.rest.parts.values())
        if g > 1:
            p = Sum({m: c // g for m, c in p.parts.items()})
        if p in self.facts or len(self.facts) > MAX_FACTS:
            return
        if self.nonnegative(-p - 1):
            self.absurd = True
        opposite = self.nonnegative(-p)
        self._drop_undecided()
        self.facts.append(p)
        end = p.parts.get((), 0)
        self.least[p.rest] = min(end, self.least.get(p.rest, end))
        for m, c in p.parts.items():
            top = self.range(p - Sum({m: c}))[1]
            if len(m) == 1 and top != inf:
                low, high = self.ranges.get(m[0], (-inf, inf))
                self.ranges[m[0]] = (max(low, -(top // c)), high) if c > 0 else (low, min(high, top // -c))
        for m, c in p.parts.items():
            if len(m) == 1 and (m[0].kind, c > 0) in (("min", True), ("max", False)):
                for q in m[0].subterms:
                    self._fact(p + (q - Sum({m: 1})) * c)
            elif len(m) == 1 and m[0].kind == "div" and abs(c) == 1:
                self._bounded(p - Sum({m: c}), m[0], c)
            elif len(m) == 1 and m[0] not in self.quotients and (quotient := self.quotient(m[0])) is not None:
                self.quotients = self.quotients | {m[0]}
                rest = quotient[0] - quotient[1] * Sum({m: 1})
                self._fact(rest)
                self._fact(quotient[1] - 1 - rest)
        if opposite:
            self._equal(p)

    def _bounded(self, rest: Sum, a: Atom, sign: int) -> None:
        """Use that rest + a >= 0, or rest - a >= 0, for a quotient a: this bounds its dividend."""
        dividend, n = a.subterms
        self._fact(rest * n + (dividend if sign > 0 else number(n - 1) - dividend))

    def _equal(self, p: Sum) -> None:
        """Use that p = 0: one symbol of p is replaced by the rest from now on."""
        for m, c in sorted(p.parts.items(), reverse=True):
            if len(m) == 1 and abs(c) == 1:
                rest = (Sum({m: c}) - p) * c
                if m[0] in inside(rest) or (m[0].kind != "sym" and rest.value is None):
                    continue
                self._replace(m, rest)
                return

    def _replace(self, m: Monomial, replacement: Sum) -> None:
        self.same = {k: replaced(q, {m: replacement}) for k, q in self.same.items()} | {m: replacement}
        for q in list(self.facts):
            changed = replaced(q, {m: replacement})
            if changed != q and changed.value is None:
                self._fact(changed)
            elif changed.value is not None and changed.value < 0:
                self.absurd = True

    def now(self, x: Any) -> Any:
        """A polynomial or condition with symbols replaced by the polynomials that they equal."""
        return replaced(x, self.same) if self.same and x is not None and not isinstance(x, bool) else x

    # Ranges ----------------------------------------------------------------------------------------------------------

    def range(self, p: Sum) -> tuple[Any, Any]:
        """The bounds of a polynomial that follow from the ranges of its atoms alone, which may be infinite."""
        low: Any = 0
        high: Any = 0
        for m, c in p.parts.items():
            a, b = self._part(m, c)
            low, high = low + a, high + b
        return low, high

    def _part(self, m: Monomial, c: int) -> tuple[Any, Any]:
        """The range of a monomial with its factor."""
        if len(m) == 1:
            a, b = self._range(m[0])
            return (a * c, b * c) if c > 0 else (b * c, a * c)
        a, b = c, c
        for x in dict.fromkeys(m):
            ends = power(*self._range(x), m.count(x))
            corners = [0 if u == 0 or v == 0 else u * v for u in (a, b) for v in ends]
            a, b = min(corners), max(corners)
        return a, b

    def _range(self, x: Atom) -> tuple[Any, Any]:
        least, most = x.limits
        if x.kind == "div":
            a, b = self.range(x.subterms[0])
            least, most = a if a == -inf else a // x.subterms[1], b if b == inf else b // x.subterms[1]
        elif x.kind in ("min", "max", "ite"):
            (a, b), (c, d) = self.range(x.subterms[-2]), self.range(x.subterms[-1])
            least = max(a, c) if x.kind == "max" else min(a, c)
            most = min(b, d) if x.kind == "min" else max(b, d)
        known = self.ranges.get(x)
        return (least, most) if known is None else (max(known[0], least), min(known[1], most))

    # Entailment ------------------------------------------------------------------------------------------------------

    def nonnegative(self, p: Sum, depth: int = DEPTH) -> bool:
        """Whether p >= 0 follows from ranges, or from ranges and facts that cancel the monomials which may be
        negative."""
        if depth < DEPTH:
            return self._nonnegative(p, depth)
        cached = self.shown.get(p)
        if cached is None:
            cached = self.shown[p] = self._searched(p)
        return cached

    def _searched(self, p: Sum) -> bool:
        """Whether p >= 0 follows; a long search is interrupted to look for a model in which p is negative."""
        low = self.range(p)[0]
        if low >= 0 or p.value is not None:
            return low >= 0
        if self.work.done > self.work.limit:
            raise OutOfWork
        if not self.models and not self.sought and self.near:
            self.sought = True
            self._refuted(True)
        if any(model.number(p) < 0 for model in self.models):
            return False
        outer = self.most
        try:
            if self.near:
                enough = self.most = min(outer, self.work.done + SHORT)
                if self._nonnegative(p, DEPTH, True):
                    return True
                if self.work.done <= enough or self._refuted(ge(-p - 1)):
                    return False
            self.most = min(outer, self.work.done + LONG)
            return self._nonnegative(p, DEPTH, True)
        finally:
            self.most = outer

    def _refuted(self, c: Condition) -> bool:
        """Whether a model of the assumptions and a condition was found; later queries try this model too."""
        model, evaluations = counterexample(self.near, [*self.assumed, c])
        self.work.done += evaluations // EVALUATIONS
        if model is not None:
            self.models = [model, *self.models][:MAX_MODELS]
            self.near = [model, *self.near][: 2 * MAX_MODELS]
        return model is not None

    def _nonnegative(self, p: Sum, depth: int, first: bool = False) -> bool:
        self.work.done += 1
        if self.range(p)[0] >= 0:
            return True
        if (end := self.least.get(p.rest)) is not None and p.parts.get((), 0) >= end:
            return True
        if depth == 0 or self.work.done > self.most:
            return False
        for m, c in p.parts.items():
            if len(m) == 1 and m[0].kind in ("min", "max", "ite"):
                ends = m[0].subterms[-2:]
                if m[0].kind == "ite" or (m[0].kind == "min") == (c > 0):
                    return all(self.nonnegative(replaced(p, {m: q}), depth) for q in ends)
                if any(self.nonnegative(p + (q - Sum({m: 1})) * c, depth) for q in ends):
                    return True
        worst = sorted((self._part(m, c)[0], m) for m, c in p.parts.items() if m)
        unbounded = [m for low, m in worst if low == -inf]
        least = unbounded[:1] or [m for low, m in worst if low < 0]
        for m in least or ([m for _, m in worst] if first else []):
            for q in self._with(m, p):
                c, d = p.parts[m], q.parts.get(m, 0)
                if c * d <= 0:
                    continue
                left = p * abs(d) + (abs(d) - 1) - q * abs(c)
                g = gcd(*left.rest.parts.values()) or 1
                if self.nonnegative(Sum({k: n // g for k, n in left.parts.items()}), depth - 1):
                    return True
        for m in p.parts:
            if (
                len(m) == 1 and (quotient_of_atom := self.quotient(m[0])) is not None
            ):  # as p is whole, y p > -y is enough
                return self.nonnegative(p * quotient_of_atom[1] + quotient_of_atom[1] - 1, depth - 1)
        return False

    def quotient(self, a: Atom) -> tuple[Sum, Sum] | None:
        """The dividend and the divisor of an atom that is a quotient rounded down, by a number that is not a constant
        and known to be positive; None for other atoms."""
        quotient_of_atom = quotient(a)
        if quotient_of_atom is None or not self.nonnegative(quotient_of_atom[1] - 1, 1):
            return None
        return (
            quotient_of_atom
            if a.subterms[0][0] == "floordiv" or self.nonnegative(quotient_of_atom[0], 1)
            else None
        )

    def _with(self, m: Monomial, p: Sum) -> Iterator[Sum]:
        """The facts that may cancel a monomial m: facts that contain m, multiples of a fact by a non-negative monomial
        that contain m, and the bounds of quotients in p."""
        for q in self.facts:
            if m in q.parts:
                yield q
            if len(m) == 2:
                for x, y in (m, m[::-1]):
                    if (x,) in q.parts and self._range(y)[0] >= 0:
                        yield q * Sum({(y,): 1})
        if len(m) == 1 and self._range(m[0])[0] >= 0:
            for x in (pair[1 - pair.index(m[0])] for pair in p.parts if len(pair) == 2 and m[0] in pair):
                yield from (q * Sum({m: 1}) for q in self.facts if (x,) in q.parts)
        for k in p.parts:
            if len(k) == 1 and k[0].kind == "div":
                dividend, n = k[0].subterms
                rest = dividend - Sum({k: n})
                for q in (rest, number(n - 1) - rest):
                    if k == m or p.parts[k] * abs(q.parts.get(m, 0)) == q.parts[k] * abs(p.parts[m]):
                        yield q
        for a in dict.fromkeys(a for k in p.parts if len(k) > 1 for a in k):
            if (quotient_of_atom := self.quotient(a)) is not None:
                rest = quotient_of_atom[0] - quotient_of_atom[1] * Sum({(a,): 1})
                yield from (rest, quotient_of_atom[1] - 1 - rest)

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
            if c not in self.answers:
                self.answers[c] = self._decided(self.resolved(c), True)
            return self.answers[c]
        return self._decided(c, residues)

    def _decided(self, c: Condition, residues: bool) -> bool | None:
        if isinstance(c, bool):
            return c
        if c in self.true:
            return True
        if negation(c) in self.true or self._undecided(c):
            return False if negation(c) in self.true else None
        kind, *args = c
        if kind == "not":
            inner = self.holds(args[0], residues)
            return None if inner is None else not inner
        if kind in ("and", "or"):
            answers = {self.holds(x, residues) for x in args}
            dominant = kind == "or"
            return dominant if dominant in answers else None if None in answers else not dominant
        if kind == "is":
            return None
        p = args[0]
        if kind == "ge":
            if self.nonnegative(p):
                return True
            if self.nonnegative(-p - 1):
                return False
            if residues and self.nonnegative(p + 1, 1) and self._contradicts_remainders(p + 1):
                return True
        elif self.nonnegative(p) and self.nonnegative(-p):
            return True
        elif self.nonnegative(p - 1) or self.nonnegative(-p - 1):
            return False
        return self._for_each_residue(c) if residues else None

    def _undecided(self, c: Condition) -> bool:
        """Whether a condition is true in one model and false in another, so that neither it nor its negation
        follows."""
        return len({model.holds(c) for model in self.models}) > 1

    def _contradicts_remainders(self, p: Sum) -> bool:
        """Whether p = 0 contradicts a known condition on remainders."""
        for m, k in sorted(p.parts.items(), reverse=True):
            if len(m) == 1 and m[0].kind == "sym" and abs(k) == 1:
                substitution = {m: (Sum({m: k}) - p) * k}
                about = (t for t in self.true if m[0] in inside(t) and divided(t))
                return any(self.holds(replaced(t, substitution), False) is False for t in about)
        return False

    def _for_each_residue(self, c: Condition) -> bool | None:
        """The truth value of a condition, if it is the same for each residue of a dividend in the condition or in a
        known condition about one of its atoms; else None."""
        about = inside(c)
        substitution = {m: q for m, q in self.same.items() if m[0].kind == "sym"}
        true = [t for t in (replaced(t, substitution) for t in self.true) if not about.isdisjoint(inside(t))]
        for base in dict.fromkeys(x for t in (c, *true) for x in divided(t)):
            pivot = next(((m, k) for m, k in sorted(base.parts.items(), reverse=True) if abs(k) == 1), None)
            recorded = [t for t in true if base in divided(t)]
            n = period(c, base)
            if n == 1 and (n := lcm(*(period(t, base) for t in recorded))) > STRIP:
                continue
            if pivot is None or not 1 < n <= PERIOD:
                continue
            h = Atom("sym", f"h{n}")
            inner = Known(self)
            inner.shown, inner.answers, inner.models, inner.near = {}, {}, [], []
            inner.ranges[h] = (0 if self.nonnegative(base) else -inf, inf)
            answers: set[bool | None] = set()
            m, k = pivot
            facts = [q for q in self.facts if m in q.parts]
            begun, asked = self.work.done, not self.near
            for r in range(n):
                if not asked and self.work.done > begun + SHORT:
                    asked = True
                    if self._refuted(negation(c) if self.near[0].holds(c) else c):
                        return None
                if self.work.done > begun + LONGEST:
                    return None
                self.work.done += 1 + len(recorded)  # for the substitutions
                substitution = {m: (Sum({(h,): n}) + r - (base - Sum({m: k}))) * k}
                if any(inner.holds(replaced(t, substitution), False) is False for t in recorded):
                    continue
                answer = inner.holds(replaced(c, substitution), False)
                if answer in answers and answer is not None:
                    continue
                if facts and (answer is None or answers):
                    nearer = Known(inner)
                    for q in facts:
                        nearer._fact(replaced(q, substitution))
                    if nearer.absurd:
                        continue
                    answer = nearer.holds(replaced(c, substitution), False)
                answers.add(answer)
                if None in answers or len(answers) > 1:
                    break
            else:
                return answers.pop() if answers else None
        return None

    def solved(self, c: Condition) -> Condition | None:
        """The equation of a symbol and a sum, if a condition states the remainder of the symbol, and the facts leave
        one number with this remainder."""
        if isinstance(c, bool) or c[0] != "eq":
            return None
        remainders = [a for a in c[1].atoms() if a.kind == "mod"]
        if len(remainders) != 1:
            return None
        base, n = remainders[0].subterms
        r = (c[1] - Sum({(remainders[0],): 1})).value or (c[1] + Sum({(remainders[0],): 1})).value or 0
        h = Atom("sym", "h")
        for m, k in base.parts.items():
            if len(m) != 1 or abs(k) != 1 or m[0].kind != "sym":
                continue
            x = (Sum({(h,): n}) + (Sum({m: k}) - base + abs(r))) * k
            rows: list[Sum] = []
            for q in self.facts:
                if m in q.parts:
                    p = replaced(q, {m: x})
                    g = gcd(*p.rest.parts.values()) or 1
                    rows.append(Sum({j: i // g for j, i in p.parts.items()}))
            for p in rows:
                if abs(i := p.parts.get((h,), 0)) == 1 and -p in rows:
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


def power(low: Any, high: Any, n: int) -> tuple[Any, Any]:
    """The range of the n-th power of a number in a range."""
    if n % 2:
        return low**n, high**n
    ends = (abs(low) ** n, abs(high) ** n)
    return 0 if low <= 0 <= high else min(ends), max(ends)


def case_split(c: Condition) -> tuple[Condition, ...] | None:
    """The conditions of which at least one holds if another condition holds."""
    if isinstance(c, bool) or c[0] == "or":
        return None if isinstance(c, bool) else c[1:]
    inner = c[1] if c[0] == "not" else c
    if c[0] == "not" and inner[0] == "and":
        return tuple(map(negation, inner[1:]))
    if c[0] == "not" and inner[0] == "eq":
        return ge(inner[1] - 1), ge(-inner[1] - 1)
    for a in sorted(inner[1].atoms()) if c[0] in ("ge", "eq") else ():
        if a.kind == "ite":
            yes, no = (replaced(c, {(a,): q}) for q in a.subterms[1:])
            return conjunction(a.subterms[0], yes), conjunction(negation(a.subterms[0]), no)
    return None


def fresh(name: str) -> Sum:
    """The polynomial of a new symbol, whose range is unknown."""
    return atom("sym", name)
