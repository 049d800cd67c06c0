"""The arithmetic of the verifier: polynomials over symbols, conditions on them, and entailment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import gcd, inf, lcm
from typing import Any, TypeAlias

from tegula.check.verifier.bits import BIT_OPERATIONS, bit_operation
from tegula.types import DTYPES, DType

MAX_COMBINED, MAX_PERIOD, MAX_PERIOD_OF_FACTS, MAX_FACTS, MAX_DISJUNCTIONS = 3, 4096, 64, 200, 16
"""Limits: the facts combined for one inequality; the residues of a dividend in a query, and of a dividend that occurs
in known conditions only; the facts and the disjunctions of a path."""
MAX_INT32 = 2**31 - 1
MAX_TIGHTENED = 1 << 200
"""The largest bound of an atom that is computed from other bounds: bounds of contradictory facts grow without end."""
MAX_ITEMS = MAX_INT32 - 4096
"""The largest number of items that a barrier counts: a premise."""
RANGES = {
    "array.shape": (0, MAX_INT32),
    "tid": (0, MAX_INT32),
    "block.index": (0, MAX_INT32),
    "block.count": (1, MAX_INT32),
    "logical_blocks/2": (1, inf),
}
"""The ranges of numbers that a launch decides; launches of more threads and blocks are refused."""

QUOTIENTS = ("floordiv", "div")
"""The ops whose result is a quotient, whose absolute value is at most that of the dividend."""

Mono: TypeAlias = tuple[int, ...]
Poly: TypeAlias = tuple[tuple[Mono, int], ...]
"""A polynomial: monomials (numbers of atoms, in order) with their factors, in order. () is 0."""
Cond: TypeAlias = Any
"""True, False, ("ge", p): p >= 0, ("eq", p): p = 0, ("is", p): an opaque bool, ("not", c), ("and", c, d), ("or", c,
d)."""


def number(n: int) -> Poly:
    """An integer as a polynomial."""
    return (((), n),) if n else ()


def plus(p: Poly, q: Poly, factor: int = 1) -> Poly:
    """The sum p + factor * q."""
    if not q or not factor:
        return p
    if not p:
        return q if factor == 1 else tuple([(m, c * factor) for m, c in q])
    if len(q) == 1 and not q[0][0]:
        rest, n = (p[1:], p[0][1]) if not p[0][0] else (p, 0)
        n += q[0][1] * factor
        return (((), n), *rest) if n else rest
    out = dict(p)
    for m, c in q:
        out[m] = out.get(m, 0) + c * factor
    return tuple(sorted([row for row in out.items() if row[1]]))


def times(p: Poly, q: Poly) -> Poly:
    """The product of two polynomials."""
    if len(q) == 1 and not q[0][0]:
        return tuple([(m, c * q[0][1]) for m, c in p])
    out: dict[Mono, int] = {}
    for m, c in p:
        for n, d in q:
            key = tuple(sorted(m + n)) if m and n else m or n
            out[key] = out.get(key, 0) + c * d
    return tuple(sorted([row for row in out.items() if row[1]]))


def constant(p: Poly) -> int | None:
    """The integer value of a constant polynomial; None if an atom occurs."""
    return 0 if not p else p[0][1] if len(p) == 1 and not p[0][0] else None


def split_constant(p: Poly) -> tuple[Poly, int]:
    """A polynomial without its constant term, and the constant term."""
    return (p[1:], p[0][1]) if p and not p[0][0] else (p, 0)


def at_least(p: Poly) -> Cond:
    """The condition that a polynomial is at least 0."""
    n = constant(p)
    return ("ge", p) if n is None else n >= 0


def is_zero(p: Poly) -> Cond:
    """The condition that a polynomial is 0, in the same form for p and -p."""
    n = constant(p)
    return n == 0 if n is not None else ("eq", p if p[-1][1] > 0 else plus((), p, -1))


def negated(c: Cond) -> Cond:
    """The negation of a condition."""
    if isinstance(c, bool):
        return not c
    return c[1] if c[0] == "not" else at_least(plus(number(-1), c[1], -1)) if c[0] == "ge" else ("not", c)


def both(c: Cond, d: Cond) -> Cond:
    """The conjunction of two conditions."""
    if isinstance(c, bool) or isinstance(d, bool):
        return (d if c else False) if isinstance(c, bool) else (c if d else False)
    return ("and", c, d)


def either(c: Cond, d: Cond) -> Cond:
    """The disjunction of two conditions."""
    if isinstance(c, bool) or isinstance(d, bool):
        return (True if c else d) if isinstance(c, bool) else (True if d else c)
    return ("or", c, d)


def limits_of(t: Any) -> tuple[Any, Any]:
    """The minimum and the maximum of a type; infinite for types other than integers and bools."""
    if not isinstance(t, DType) or t.is_float:
        return -inf, inf
    if t.kind == "b":
        return 0, 1
    return (-(1 << (t.bits - 1)), (1 << (t.bits - 1)) - 1) if t.is_signed else (0, (1 << t.bits) - 1)


class Substitution(dict[Mono, Poly]):
    """A substitution: monomials, each with the polynomial that replaces it. `atoms_replaced`: their atoms; `cache`: the
    results for polynomials."""

    def __init__(self, rows: Mapping[Mono, Poly]) -> None:
        super().__init__(rows)
        self.atoms_replaced = frozenset(a for m in rows for a in m)
        self.cache: dict[Poly, Poly] = {}


class Atoms:
    """The table of atoms of polynomials, indexed by number. An atom is a tuple: ("sym", name), ("mod", p, n), ("div",
    p, n), ("min", p, q), ("max", p, q), ("ite", cond, p, q), ("wrap", p, type), or ("app", function, args). A function
    is an op with its attributes, the index of the result and its type; results are equal for equal arguments."""

    def __init__(self) -> None:
        self.keys: list[tuple[Any, ...]] = []
        self.numbers: dict[tuple[Any, ...], int] = {}
        self.nested: list[frozenset[int]] = []
        """For each atom the atoms that occur in it, itself included."""

    def intern(self, *key: Any) -> Poly:
        """The polynomial of the atom with a key; a new key gets the next number."""
        n = self.numbers.get(key)
        if n is None and key[0] == "app" and key[1][0] in BIT_OPERATIONS:
            numbers = [constant(p) if isinstance(p, tuple) else None for p in key[2]]
            result = bit_operation(key[1][0], numbers, *limits_of(DTYPES.get(key[1][3])))
            if result is not None:
                return number(result)
        if n is None:
            n = self.numbers[key] = len(self.keys)
            self.keys.append(key)
            inner = () if key[0] == "sym" else key[2] if key[0] == "app" else key[1:]
            self.nested.append(frozenset((n,)).union(*map(self.atoms_in, inner)))
        return (((n,), 1),)

    def atoms_in(self, x: Any) -> frozenset[int]:
        """All atoms in a polynomial or condition."""
        if not isinstance(x, tuple) or not x:
            return frozenset()
        if isinstance(x[0], str):
            return frozenset[int]().union(*map(self.atoms_in, x[1:]))
        return frozenset[int]().union(*(self.nested[a] for m, _ in x for a in m))

    def mod(self, p: Poly, n: int) -> Poly:
        """The remainder in 0 ... n - 1."""
        out: Poly = ()
        for m, c in p:
            key: tuple[Any, ...] = self.keys[m[0]] if len(m) == 1 else ("", (), 1)
            is_multiple = key[0] == "mod" and key[2] % n == 0
            out = plus(out, key[1] if is_multiple else ((m, 1),), c)
        out = tuple((m, c % n) for m, c in out if c % n)
        return out if constant(out) is not None else self.intern("mod", out, n)

    def div(self, p: Poly, n: int) -> Poly:
        """The quotient, rounded down."""
        multiples = tuple((m, c // n) for m, c in p if c // n)
        rest = tuple((m, c % n) for m, c in p if c % n)
        if constant(rest) is not None:
            return multiples
        ((m, c), *more) = rest
        key: tuple[Any, ...] = self.keys[m[0]] if len(m) == 1 and c == 1 and not more else ("", (), 1)
        if key[0] == "mod" and key[2] % n == 0:
            return plus(multiples, self.mod(self.div(key[1], n), key[2] // n))
        return plus(multiples, self.intern("div", rest, n))

    def scaled(self, p: Poly, n: int) -> Poly:
        """The polynomial n p; for a quotient that is multiplied by its divisor, the dividend minus the remainder."""
        out = times(p, number(n))
        for m, c in p:
            kind, *args = self.keys[m[0]] if len(m) == 1 else ("",)
            if kind == "div" and c * n % args[1] == 0:
                out = plus(plus(out, ((m, 1),), -c * n), plus(args[0], self.mod(*args), -1), c * n // args[1])
        return out

    def wrap(self, p: Poly, name: str) -> Poly:
        """An integer after it wraps to a type: a remainder, or, of signed types of 32 and 64 bits, an atom."""
        t = DTYPES[name]
        assert t.is_int
        low, high = limits_of(t)
        if constant(p) is None and t.is_signed and t.bits > 16:
            return self.intern("wrap", p, name)
        return plus(self.mod(plus(p, number(-low)), high - low + 1), number(low))

    def extreme(self, kind: str, p: Poly, q: Poly) -> Poly:
        """The smaller ("min") or the greater ("max") of two polynomials."""
        d = constant(plus(p, q, -1))
        return self.intern(kind, *sorted((p, q))) if d is None else p if (d <= 0) == (kind == "min") else q

    def choose(self, c: Cond, p: Poly, q: Poly) -> Poly:
        """The polynomial p where a condition holds, and q where it does not."""
        if isinstance(c, bool):
            return p if c else q
        if p == q:
            return p
        closed_form = self._next_stage_or_parity(c, p, q)
        return closed_form if closed_form is not None else self.intern("ite", c, p, q)

    def _next_stage_or_parity(self, c: Cond, p: Poly, q: Poly) -> Poly | None:
        """The next stage or parity in closed form, if the condition selects the last stage, b mod n = n - 1. The next
        stage is 0 there and the current stage plus 1 elsewhere: b + 1 mod n. The parity flips there: it increases by
        (b + 1) div n - b div n, modulo 2. None for other choices."""
        stage, end = split_constant(c[1]) if c[0] == "eq" else ((), 0)
        if len(stage) != 1 or stage[0][1] != 1 or len(stage[0][0]) != 1:
            return None
        kind, *args = self.keys[stage[0][0][0]]
        if kind != "mod" or end != 1 - args[1]:
            return None
        b, n = args
        if not p and q == plus(stage, number(1)):
            return self.mod(plus(b, number(1)), n)
        kind, *args = self.keys[q[0][0][0]] if len(q) == 1 and q[0][1] == 1 and len(q[0][0]) == 1 else ("",)
        if kind != "mod" or args[1] != 2 or p != plus(number(1), q, -1):
            return None
        carry = plus(self.div(plus(b, number(1)), n), self.div(b, n), -1)
        return self.mod(plus(args[0], carry), 2)

    def substitute(self, p: Poly, substitution: Mapping[Mono, Poly]) -> Poly:
        """A polynomial after a substitution, which also applies inside atoms."""
        if not isinstance(substitution, Substitution):
            substitution = Substitution(substitution)
        cached = substitution.cache.get(p)
        if cached is None:
            cached = substitution.cache[p] = self._substitute_monomials(p, substitution)
        return cached

    def _substitute_monomials(self, p: Poly, substitution: Substitution) -> Poly:
        changed = [
            (m, c) for m, c in p if any(not self.nested[a].isdisjoint(substitution.atoms_replaced) for a in m)
        ]
        if not changed:
            return p
        out = tuple(row for row in p if row not in changed)
        for m, c in changed:
            value = substitution.get(m)
            if value is None:
                value = number(1)
                for a in m:
                    value = times(
                        value,
                        substitution[(a,)]
                        if (a,) in substitution
                        else self._substitute_atom(a, substitution),
                    )
            out = plus(out, value, c)
        return out

    def _substitute_atom(self, a: int, substitution: Substitution) -> Poly:
        if self.nested[a].isdisjoint(substitution.atoms_replaced):
            return (((a,), 1),)
        kind, *args = self.keys[a]
        if kind in ("mod", "div"):
            return (self.mod if kind == "mod" else self.div)(self.substitute(args[0], substitution), args[1])
        if kind in ("min", "max"):
            return self.extreme(
                kind, self.substitute(args[0], substitution), self.substitute(args[1], substitution)
            )
        if kind == "ite":
            return self.choose(
                self.substitute_condition(args[0], substitution),
                *(self.substitute(p, substitution) for p in args[1:]),
            )
        if kind == "wrap":
            return self.wrap(self.substitute(args[0], substitution), args[1])
        if kind == "app":
            return self.intern("app", args[0], tuple(self.substitute_any(x, substitution) for x in args[1]))
        return (((a,), 1),)

    def substitute_any(self, x: Any, substitution: Mapping[Mono, Poly]) -> Any:
        """A polynomial or a condition after a substitution."""
        if isinstance(x, bool) or (x and isinstance(x[0], str)):
            return self.substitute_condition(x, substitution)
        return self.substitute(x, substitution)

    def substitute_condition(self, c: Cond, substitution: Mapping[Mono, Poly]) -> Cond:
        """A condition after a substitution in its polynomials, which also applies inside atoms."""
        if isinstance(c, bool):
            return c
        if c[0] == "is":
            return ("is", self.substitute(c[1], substitution))
        if c[0] in ("ge", "eq"):
            return (at_least if c[0] == "ge" else is_zero)(self.substitute(c[1], substitution))
        inner = [self.substitute_condition(x, substitution) for x in c[1:]]
        return negated(inner[0]) if c[0] == "not" else (both if c[0] == "and" else either)(*inner)

    def collect_dividends(self, x: Any, base: Poly | None, dividends: list[Poly]) -> int:
        """Append to `dividends` the dividends in a polynomial or condition, outer ones first, each without its
        constant term and divided by the common factor of its coefficients. The result is the period, in units of
        `base`, after which all remainders of `base` and of its quotients repeat."""
        if not isinstance(x, tuple):
            return 1
        if x and isinstance(x[0], str):
            return lcm(*(self.collect_dividends(y, base, dividends) for y in x[1:]))
        total = 1
        for a in {a: None for m, _ in x for a in m}:
            kind, *args = self.keys[a]
            if kind in ("mod", "div"):
                factor = gcd(*(c for m, c in args[0] if m)) or 1
                rest = tuple((m, c // factor) for m, c in args[0] if m)
                dividends.append(rest)
                inner = self.collect_dividends(args[0], base, dividends)
                total = lcm(total, args[1] * inner if inner > 1 or rest == base else 1)
            elif kind != "sym":
                total = lcm(
                    total,
                    *(
                        self.collect_dividends(y, base, dividends)
                        for y in (args[1] if kind == "app" else args)
                    ),
                )
        return total


class Facts:
    """The facts that are known on a path: polynomials that are at least 0, and conditions that hold."""

    def __init__(self, atoms: Atoms, other: Facts | None = None) -> None:
        self.atoms = atoms
        self.ge: list[Poly] = list(other.ge) if other else []
        self.min_constant: dict[Poly, int] = dict(other.min_constant) if other else {}
        """The least constant term among facts p >= 0 with equal p apart from that term."""
        self.true: set[Cond] = set(other.true) if other else set()
        self.low: dict[int, Any] = dict(other.low) if other else {}
        self.high: dict[int, Any] = dict(other.high) if other else {}
        self.substitution = other.substitution if other else Substitution({})
        self.quotients: frozenset[int] = other.quotients if other else frozenset()
        """The quotients by divisors that are not constants, whose bounds are among the facts."""
        self.facts_with: dict[Mono, tuple[tuple[Poly, int], ...]] = dict(other.facts_with) if other else {}
        """By monomial, the facts p >= 0 in which the monomial occurs, each with the monomial's coefficient."""
        self.ranges: dict[int | Poly, tuple[Any, Any]] = other.ranges if other else {}
        """Cached ranges of atoms and polynomials; shared by copies until one of them tightens a bound."""
        self.at_least_cache: dict[tuple[Poly, int], bool] = other.at_least_cache if other else {}
        """Cached results of `at_least`, by polynomial and depth; shared by copies until one of them gets another
        fact."""
        self.disjunctions: list[tuple[Cond, ...]] = list(other.disjunctions) if other else []
        """Disjunctions that hold: at least one condition of each is true."""

    def assume(self, c: Cond) -> None:
        """Add a condition; then, for each disjunction with a single condition that is not excluded, add this
        condition."""
        self._add_condition(c)
        changed = True
        while changed:
            changed = False
            for disjunction in list(self.disjunctions):
                rewritten = [(d, self.atoms.substitute_condition(d, self.substitution)) for d in disjunction]
                remaining = [d for d, e in rewritten if self.decide(e, False, 1) is not False]
                if len(remaining) < 2:
                    self.disjunctions.remove(disjunction)
                    changed |= (d := remaining[0] if remaining else False) not in self.true
                    self._add_condition(d)

    def _add_condition(self, c: Cond) -> None:
        self.true |= {c, self.atoms.substitute_condition(c, self.substitution)}
        if isinstance(c, bool):
            if not c:
                self.add(number(-1))
        elif c[0] == "and" or (c[0] == "not" and c[1][0] == "or"):
            for d in c[1:] if c[0] == "and" else map(negated, c[1][1:]):
                self._add_condition(d)
        elif c[0] in ("ge", "eq"):
            if c[0] == "eq":
                self._use_remainder(self.atoms.substitute(c[1], self.substitution))
                self.add(plus((), c[1], -1))
            self.add(c[1])
        if (
            len(self.disjunctions) < MAX_DISJUNCTIONS
            and (row := self._operands_of_disjunction(c)) is not None
        ):
            self.disjunctions.append(row)

    def _operands_of_disjunction(self, c: Cond) -> tuple[Cond, ...] | None:
        """The operands of a condition that is equivalent to a disjunction; None for other conditions."""
        if isinstance(c, bool) or c[0] == "or":
            return None if isinstance(c, bool) else c[1:]
        inner = c[1] if c[0] == "not" else c
        if c[0] == "not" and inner[0] == "and":
            return tuple(map(negated, inner[1:]))
        if c[0] == "not" and inner[0] == "eq":
            return at_least(plus(inner[1], number(-1))), at_least(plus(number(-1), inner[1], -1))
        for a, k in ((m[0], k) for m, k in inner[1] if len(m) == 1) if c[0] in ("ge", "eq") else ():
            kind, *args = self.atoms.keys[a]
            if c[0] == "ge" and kind == ("min" if k < 0 else "max"):  # it is one of its operands
                first, second = (plus(c[1], plus(q, (((a,), 1),), -1), k) for q in args)
                return at_least(first), at_least(second)
            if kind == "ite":
                if_true, if_false = (self.atoms.substitute_condition(c, {(a,): q}) for q in args[1:])
                return both(args[0], if_true), both(negated(args[0]), if_false)
        return None

    def _use_remainder(self, p: Poly) -> None:
        """Use that p = 0, if this means q mod n = r: then q = n (q div n) + r, and an atom of q is replaced by a
        polynomial."""
        rest = tuple((m, c) for m, c in p if m)
        if len(rest) != 1 or len(rest[0][0]) != 1 or abs(rest[0][1]) != 1:
            return
        kind, *args = self.atoms.keys[rest[0][0][0]]
        if kind != "mod":
            return
        q, n = args
        r = (constant(plus(rest, p, -1)) or 0) * rest[0][1]
        for m, c in reversed(q):
            if len(m) == 1 and abs(c) == 1 and self.atoms.keys[m[0]][0] in ("sym", "app"):
                if m[0] not in self.atoms.atoms_in(plus(q, ((m, c),), -1)) and m not in self.substitution:
                    dividend = plus(number(r), self.atoms.div(q, n), n)
                    self._replace_atom(m[0], times(plus(dividend, plus(q, ((m, c),), -1), -1), number(c)))
                return

    def add(self, p: Poly) -> None:
        """Add the fact p >= 0, and its consequences for the bounds and values of atoms."""
        p = self.atoms.substitute(p, self.substitution) if self.substitution else p
        factor = gcd(*(c for m, c in p if m)) or 1
        p = tuple((m, c // factor) for m, c in p if c // factor)
        if p in self.ge or len(self.ge) > MAX_FACTS:
            return
        linear = [(m[0], c) for m, c in p if len(m) == 1]
        zero = bool(linear) and self.at_least(plus((), p, -1), 1)
        self.ge.append(p)
        self.at_least_cache = {}
        for m, c in p:
            self.facts_with[m] = (*self.facts_with.get(m, ()), (p, c))
        rest, end = split_constant(p)
        self.min_constant[rest] = min(end, self.min_constant.get(rest, end))
        self._tighten(p, 2)
        for a, c in linear:
            kind, *args = self.atoms.keys[a]
            if (kind == "min" and c > 0) or (kind == "max" and c < 0):
                for q in args:  # in this occurrence only: in another one p may be smaller with an operand
                    self.add(plus(p, plus(q, (((a,), 1),), -1), c))
            elif kind == "div" and abs(c) == 1:  # a bound on a quotient bounds its dividend
                rest = times(plus(p, (((a,), c),), -1), number(args[1]))
                self.add(plus(plus(rest, args[0], c), number(args[1] - 1 if c < 0 else 0)))
            elif kind == "app" and a not in self.quotients and (division := self.division(a)) is not None:
                self.quotients |= {a}
                rest = plus(division[0], times(division[1], (((a,), 1),)), -1)
                self.add(rest)
                self.add(plus(plus(division[1], number(-1)), rest, -1))
        if (expanded := self._without_remainders(p)) is not p:
            self.add(expanded)
        for a, c in reversed(linear) if zero else ():
            rest = plus((((a,), c),), p, -1)
            if (
                abs(c) == 1
                and a not in self.atoms.atoms_in(rest)
                and (self.atoms.keys[a][0] == "sym" or constant(rest) is not None)
            ):
                self._replace_atom(a, plus((), rest, c))
                return

    def _tighten(self, p: Poly, depth: int) -> None:
        """Tighten the bounds of the atoms in a fact p >= 0, and, up to a depth, in other facts with these atoms."""
        for a, c in [(m[0], c) for m, c in p if len(m) == 1]:
            high = self.interval(plus(p, (((a,), c),), -1))[1]
            if abs(high) > MAX_TIGHTENED:
                continue
            bounds, bound = (self.low, -(high // c)) if c > 0 else (self.high, high // -c)
            if a not in bounds or (bound > bounds[a] if c > 0 else bound < bounds[a]):
                bounds[a], self.ranges = bound, {}
                for q, _ in self.facts_with[(a,)] if depth else ():
                    self._tighten(q, depth - 1)

    def _replace_atom(self, a: int, replacement: Poly) -> None:
        """Replace an atom, from now on, by an equal polynomial in which the atom does not occur."""
        self.substitution = Substitution(
            {m: self.atoms.substitute(q, {(a,): replacement}) for m, q in self.substitution.items()}
            | {(a,): replacement}
        )
        for q in list(self.ge):
            changed = self.atoms.substitute(q, {(a,): replacement})
            if changed != q and (constant(changed) or 0) <= 0 and changed not in self.ge:
                self.add(changed)

    def bounds(self, a: int) -> tuple[Any, Any]:
        """The bounds of an atom, which may be infinite."""
        cached = self.ranges.get(a)
        if cached is None:
            cached = self.ranges[a] = self._bounds(a)
        return cached

    def _bounds(self, a: int) -> tuple[Any, Any]:
        kind, *args = self.atoms.keys[a]
        low, high = -inf, inf
        if kind == "mod":
            low, high = 0, args[1] - 1
        elif kind == "div":
            low, high = (x if abs(x) == inf else x // args[1] for x in self.interval(args[0]))
        elif kind in ("min", "max", "ite"):
            (a0, b0), (a1, b1) = (self.interval(p) for p in args[-2:])
            f, g = (min, min) if kind == "min" else (max, max) if kind == "max" else (min, max)
            low, high = f(a0, a1), g(b0, b1)
        elif kind == "wrap":
            low, high = limits_of(DTYPES[args[1]])
        elif kind == "app":
            function = args[0]
            t = DTYPES.get(function[3])
            low, high = RANGES.get(function[0], RANGES.get(f"{function[0]}/{function[2]}", limits_of(t)))
            if function[0] in QUOTIENTS and len(args[1]) == 2:
                # a certificate may name a quotient that its type cannot represent
                a, b = self.interval(args[1][0])
                low, high = (low, high) if low <= a and b <= high else (-max(-a, b), max(-a, b))
        return max(low, self.low.get(a, -inf)), min(high, self.high.get(a, inf))

    def interval(self, p: Poly) -> tuple[Any, Any]:
        """The bounds of a polynomial that follow from the bounds of its atoms alone, which may be infinite."""
        cached = self.ranges.get(p)
        if cached is None:
            cached = self.ranges[p] = self._interval(p)
        return cached

    def _interval(self, p: Poly) -> tuple[Any, Any]:
        low = high = 0
        for m, c in p:
            if len(m) <= 1:
                a, b = self.bounds(m[0]) if m else (1, 1)
                a, b = (0 if not x else x * c for x in ((a, b) if c > 0 else (b, a)))
                low, high = low + a, high + b
                continue
            term_low = term_high = c
            for a in dict.fromkeys(m):
                powers = [x ** m.count(a) for x in self.bounds(a)]
                if m.count(a) % 2 == 0 and min(self.bounds(a)) < 0 < max(self.bounds(a)):
                    powers.append(0)
                corners = [0 if not x or not y else x * y for x in (term_low, term_high) for y in powers]
                term_low, term_high = min(corners), max(corners)
            low, high = low + term_low, high + term_high
        return low, high

    def at_least(self, p: Poly, depth: int = MAX_COMBINED) -> bool:
        """Whether p >= 0 follows from ranges and at most `depth` facts, each of which cancels a monomial."""
        if self.interval(p)[0] >= 0:
            return True
        rest, end = split_constant(p)
        if end >= self.min_constant.get(rest, inf):
            return True
        if not depth:
            return False
        cached = self.at_least_cache.get((p, depth))
        if cached is None:
            cached = self._search_at_least(p, depth)
            self.at_least_cache[p, depth] = cached
        return cached

    def _search_at_least(self, p: Poly, depth: int) -> bool:
        if (factor := gcd(*(c for m, c in p if m))) > 1:
            return self.at_least(tuple((m, c // factor) for m, c in p if c // factor), depth)
        for m, c in p:
            kind, *args = self.atoms.keys[m[0]] if len(m) == 1 else ("",)
            if kind in ("min", "max", "ite"):
                if kind == "ite" or (kind == "min") == (c > 0):
                    # the atom equals one of its operands in all occurrences
                    return all(self.at_least(self.atoms.substitute(p, {m: q}), depth) for q in args[-2:])
                # p is at least as large with the atom as with one of its operands in this occurrence
                if any(self.at_least(plus(p, plus(q, ((m, 1),), -1), c), depth) for q in args):
                    return True
        terms = [(self.interval(((m, c),))[0], m, c) for m, c in p if m]
        for _, m, c in [x for x in terms if x[0] == -inf][:1] or [x for x in terms if x[0] < 0]:
            for q, d in self._cancelling_facts(m, p):
                if c * d > 0:
                    # p is an integer, so |d| p > -|d| suffices
                    rest = plus(plus(number(abs(d) - 1), p, abs(d)), q, -abs(c))
                    factor = gcd(*(n for k, n in rest if k)) or 1
                    if self.at_least(tuple((k, n // factor) for k, n in rest if n // factor), depth - 1):
                        return True
        for m, _ in p:  # p is an integer, so y p > -y suffices
            if len(m) == 1 and (division := self.division(m[0])) is not None:
                y = division[1]
                return self.at_least(plus(plus(times(p, y), y), number(-1)), depth - 1)
        expanded = self._without_remainders(p) if self.interval(p)[0] == -inf else p
        return expanded != p and self.at_least(expanded, depth)

    def _without_remainders(self, p: Poly) -> Poly:
        """A polynomial with q - n (q div n) for each remainder q mod n in its linear terms."""
        for m, c in p:
            kind, *args = self.atoms.keys[m[0]] if len(m) == 1 else ("",)
            if kind == "mod":
                p = plus(p, plus(plus(args[0], self.atoms.div(*args), -args[1]), ((m, 1),), -1), c)
        return p

    def division(self, a: int) -> tuple[Poly, Poly] | None:
        """The dividend x and the divisor y of an atom x div y, where y is not a constant and is known to be
        positive; None for other atoms."""
        kind, *args = self.atoms.keys[a]
        if kind != "app" or args[0][0] not in QUOTIENTS or len(args[1]) != 2:
            return None
        t = DTYPES.get(args[0][3])
        if t is None or not t.is_int:
            return None
        x, y = args[1]
        positive = self.interval(y)[0] >= 1 or self.at_least(plus(y, number(-1)), 1)
        is_floor = args[0][0] == "floordiv" or (positive and self.at_least(x, 1))
        return (x, y) if positive and is_floor else None

    def _cancelling_facts(self, m: Mono, p: Poly) -> Iterator[tuple[Poly, int]]:
        """The facts that may cancel a monomial m of p, each with the coefficient of m in it: the facts in which m
        occurs, multiples of facts by a non-negative monomial, and the bounds of quotients in p."""
        yield from self.facts_with.get(m, ())
        for k in range(len(m)) if len(m) == 2 else ():
            if self.bounds(m[k])[0] >= 0:
                yield from ((times(q, (((m[k],), 1),)), d) for q, d in self.facts_with.get((m[1 - k],), ()))
        if len(m) == 1 and self.bounds(m[0])[0] >= 0:
            for a in (pair[1 - pair.index(m[0])] for pair, _ in p if len(pair) == 2 and m[0] in pair):
                for q, _ in self.facts_with.get((a,), ()):
                    multiple = times(q, ((m, 1),))
                    yield multiple, dict(multiple).get(m, 0)
        for k, _ in p:
            kind, *args = self.atoms.keys[k[0]] if len(k) == 1 else ("",)
            if kind == "div":  # n q <= p <= n q + n - 1, to cancel q, or both q and the monomial
                rest = plus(args[0], ((k, 1),), -args[1])
                for r in (dict(rest), dict(plus(number(args[1] - 1), rest, -1))):
                    if k == m or dict(p)[k] * abs(r.get(m, 0)) == r[k] * abs(dict(p)[m]):
                        yield tuple(r.items()), r.get(m, 0)
        for a in dict.fromkeys(a for k, _ in p if len(k) > 1 for a in k):
            if (division := self.division(a)) is not None:  # y q <= x <= y q + y - 1
                rest = plus(division[0], times(division[1], (((a,), 1),)), -1)
                for bound in (rest, plus(plus(division[1], number(-1)), rest, -1)):
                    yield bound, dict(bound).get(m, 0)

    def decide(self, c: Cond, residues: bool = True, max_facts: int = MAX_COMBINED) -> bool | None:
        """Whether a condition follows (True), or its negation (False); None if neither is proved. `residues`: whether
        to try the residues of dividends; `max_facts`: the maximum number of facts to combine for an inequality."""
        if self.substitution and residues:
            c = self.atoms.substitute_condition(c, self.substitution)
        if residues:
            c = self._resolve_selections(c)
        if isinstance(c, bool):
            return c
        if c in self.true or negated(c) in self.true:
            return c in self.true
        if c[0] == "not":
            inner = self.decide(c[1], residues, max_facts)
            return None if inner is None else not inner
        if c[0] in ("and", "or"):
            parts = [self.decide(x, residues, max_facts) for x in c[1:]]
            dominant = c[0] == "or"
            return dominant if dominant in parts else (None if None in parts else not dominant)
        p = c[1] if c[0] in ("ge", "eq") else ()
        above, below = (plus(q, number(-1)) for q in (p, plus((), p, -1)))
        # few facts first: the search for the condition that does not follow is the longer one
        for depth in range(1, max_facts + 1) if c[0] in ("ge", "eq") else ():
            if c[0] == "ge" and self.at_least(p, depth):
                return True
            if c[0] == "eq" and self.at_least(p, depth) and self.at_least(plus((), p, -1), depth):
                return True
            if self.at_least(below, depth) or (c[0] == "eq" and self.at_least(above, depth)):
                return False
        successor = plus(p, number(1))
        if c[0] == "ge" and residues and self.at_least(successor, 1) and self._excludes_zero(successor):
            return True  # p >= -1 is known, and p = -1 is excluded
        if not residues:
            return None
        chooses = any(self.atoms.keys[a][0] == "ite" for a in self.atoms.atoms_in(c))
        simpler = c if chooses else self._resolve_quotients(c)
        return self._decide_by_residues(c) if simpler == c else self.decide(simpler)

    def _resolve_quotients(self, c: Cond) -> Cond:
        """A condition without the quotients q div n that are known, by bounds of q, and without the remainders q mod n
        where these quotients are known."""
        for a in sorted(self.atoms.atoms_in(c)):
            kind, *args = self.atoms.keys[a]
            if kind not in ("mod", "div"):
                continue
            low, high = self.interval(self.atoms.substitute(self.atoms.div(*args), self.substitution))
            if (
                low != high
                and self.at_least(args[0], 2)
                and self.at_least(plus(number(args[1] - 1), args[0], -1), 2)
            ):
                low = high = 0
            if low == high:
                value = number(low) if kind == "div" else plus(args[0], number(low * args[1]), -1)
                return self._resolve_quotients(self.atoms.substitute_condition(c, {(a,): value}))
        return c

    def _resolve_selections(self, c: Cond) -> Cond:
        """A condition with each minimum, maximum and choice replaced by the operand that is known to be selected."""
        for a in sorted(self.atoms.atoms_in(c)):
            kind, *args = self.atoms.keys[a]
            if kind == "ite" and (truth := self.decide(args[0], False)) is not None:
                return self._resolve_selections(
                    self.atoms.substitute_condition(c, {(a,): args[1 if truth else 2]})
                )
            if kind in ("min", "max"):
                p, q = args
                less = self.at_least(plus(q, p, -1), MAX_COMBINED - 1)
                if less or self.at_least(plus(p, q, -1), MAX_COMBINED - 1):
                    return self._resolve_selections(
                        self.atoms.substitute_condition(c, {(a,): p if less == (kind == "min") else q})
                    )
        return c

    def _excludes_zero(self, p: Poly) -> bool:
        """Whether p = 0 contradicts a known condition."""
        pivot = next(
            (
                (m, k)
                for m, k in reversed(p)
                if abs(k) == 1 and len(m) == 1 and self.atoms.keys[m[0]][0] == "sym"
            ),
            None,
        )
        if pivot is None:
            return False
        substitution = {pivot[0]: plus((), plus(p, (pivot,), -1), -pivot[1])}
        return any(
            self.decide(self.atoms.substitute_condition(t, substitution), False) is False for t in self.true
        )

    def _decide_by_residues(self, c: Cond) -> bool | None:
        """The truth value of a condition, if the value is the same for each residue r of a dividend b, with
        b = n h + r, in the condition or in a known condition with one of its atoms; else None."""
        bases: list[Poly] = []
        self.atoms.collect_dividends(c, None, bases)
        own_atoms = self.atoms.atoms_in(c)
        substitution = {m: q for m, q in self.substitution.items() if self.atoms.keys[m[0]][0] == "sym"}
        true = [
            t
            for t in (self.atoms.substitute_condition(t, substitution) for t in self.true)
            if own_atoms & self.atoms.atoms_in(t)
        ]
        for t in true:
            self.atoms.collect_dividends(t, None, bases)
        for base in dict.fromkeys(bases):
            pivot = next(((m, k) for m, k in reversed(base) if abs(k) == 1), None)
            related = [t for t in true if self._has_dividend(t, base)]
            n = self.atoms.collect_dividends(c, base, [])
            if (
                n == 1
                and (n := lcm(*(self.atoms.collect_dividends(t, base, []) for t in related)))
                > MAX_PERIOD_OF_FACTS
            ):
                continue
            if pivot is None or not 1 < n <= MAX_PERIOD:
                continue
            h = self.atoms.intern("sym", ("quotient", base, n))
            rest = plus((pivot,), base, -1)
            facts = Facts(self.atoms, self)
            facts.at_least_cache, facts.ranges = {}, {}  # h has tighter bounds than other symbols
            if self.at_least(base):
                facts.low[h[0][0][0]] = 0
            answers = set[bool | None]()
            facts_of_pivot = [q for q in self.ge if any(m == pivot[0] for m, _ in q)]
            for r in range(n):
                b = plus(plus(number(r), h, n), rest)
                substitution = {pivot[0]: plus((), b, pivot[1])}
                if any(
                    facts.decide(self.atoms.substitute_condition(t, substitution), False) is False
                    for t in related
                ):
                    continue
                answer = facts.decide(self.atoms.substitute_condition(c, substitution), False)
                if facts_of_pivot and answer not in answers - {None} and (answer is None or answers):
                    facts_of_residue = Facts(self.atoms, facts)
                    for q in facts_of_pivot:
                        facts_of_residue.add(self.atoms.substitute(q, substitution))
                    if any(
                        (constant(q) or 0) < 0 or facts_of_residue.at_least(plus(number(-1), q, -1))
                        for q in facts_of_residue.ge
                    ):
                        continue  # the residue contradicts the facts
                    answer = facts_of_residue.decide(self.atoms.substitute_condition(c, substitution), False)
                answers.add(answer)
                if len(answers) > 1 or None in answers:
                    break
            else:
                return answers.pop() if answers else None
        return None

    def _has_dividend(self, c: Cond, base: Poly) -> bool:
        """Whether a dividend in a condition is `base`, up to its constant term and a factor."""
        dividends: list[Poly] = []
        self.atoms.collect_dividends(c, None, dividends)
        return base in dividends

    def equal(self, p: Poly, q: Poly) -> bool:
        """Whether two polynomials are known to be equal."""
        return p == q or self.decide(is_zero(plus(p, q, -1))) is True
