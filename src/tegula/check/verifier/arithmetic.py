"""The arithmetic of the verifier: polynomials over symbols, conditions on them, and entailment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import gcd, inf, lcm
from typing import Any, TypeAlias

from tegula.types import DTYPES, DType

FACTS, PERIOD, STRIP, MAX_FACTS, MAX_SIDES = 3, 4096, 64, 200, 16
"""Limits: facts combined for one inequality; residues of a dividend that are tried, and residues if only known
conditions divide it; facts and disjunctions that are kept."""
LAST = 2**31 - 1
MAX_ITEMS = LAST - 4096
"""The largest number of items that a barrier counts: a premise."""
RANGES = {
    "array.shape": (0, LAST),
    "tid": (0, LAST),
    "block.index": (0, LAST),
    "block.count": (1, LAST),
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


class Same(dict[Mono, Poly]):
    """Monomials, each with the polynomial that it equals. `gone`: the atoms in them; `found`: polynomials in which they
    have been replaced."""

    def __init__(self, rows: Mapping[Mono, Poly]) -> None:
        super().__init__(rows)
        self.gone = frozenset(a for m in rows for a in m)
        self.found: dict[Poly, Poly] = {}


class Atoms:
    """The table of atoms of polynomials, indexed by number. An atom is a tuple: ("sym", name), ("mod", p, n), ("div",
    p, n), ("min", p, q), ("max", p, q), ("ite", cond, p, q), ("wrap", p, type), or ("app", what, args): the result of
    `what` (the op, its attributes, the index of the result, its type), which is equal for equal operands."""

    def __init__(self) -> None:
        self.keys: list[tuple[Any, ...]] = []
        self.numbers: dict[tuple[Any, ...], int] = {}
        self.inside: list[frozenset[int]] = []
        """For each atom the atoms nested in it, itself included."""

    def of(self, *key: Any) -> Poly:
        """The polynomial that is the atom of a key; a new key gets the next number."""
        n = self.numbers.get(key)
        if n is None:
            n = self.numbers[key] = len(self.keys)
            self.keys.append(key)
            inner = () if key[0] == "sym" else key[2] if key[0] == "app" else key[1:]
            self.inside.append(frozenset((n,)).union(*map(self.within, inner)))
        return (((n,), 1),)

    def within(self, x: Any) -> frozenset[int]:
        """All atoms in a polynomial or condition."""
        if not isinstance(x, tuple) or not x:
            return frozenset()
        if isinstance(x[0], str):
            return frozenset[int]().union(*map(self.within, x[1:]))
        return frozenset[int]().union(*(self.inside[a] for m, _ in x for a in m))

    def mod(self, p: Poly, n: int) -> Poly:
        """The remainder in 0 ... n - 1."""
        out: Poly = ()
        for m, c in p:
            key: tuple[Any, ...] = self.keys[m[0]] if len(m) == 1 else ("", (), 1)
            within = key[0] == "mod" and key[2] % n == 0
            out = plus(out, key[1] if within else ((m, 1),), c)
        out = tuple((m, c % n) for m, c in out if c % n)
        return out if constant(out) is not None else self.of("mod", out, n)

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
        return plus(multiples, self.of("div", rest, n))

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
            return self.of("wrap", p, name)
        return plus(self.mod(plus(p, number(-low)), high - low + 1), number(low))

    def pick(self, kind: str, p: Poly, q: Poly) -> Poly:
        """The smaller ("min") or the greater ("max") of two polynomials."""
        d = constant(plus(p, q, -1))
        return self.of(kind, *sorted((p, q))) if d is None else p if (d <= 0) == (kind == "min") else q

    def choose(self, c: Cond, p: Poly, q: Poly) -> Poly:
        """The polynomial p where a condition holds, and q where it does not."""
        if isinstance(c, bool):
            return p if c else q
        if p == q:
            return p
        counted = self._counted(c, p, q)
        return counted if counted is not None else self.of("ite", c, p, q)

    def _counted(self, c: Cond, p: Poly, q: Poly) -> Poly | None:
        """The next stage or parity in closed form, where p is chosen at the last stage, b mod n = n - 1: the stage is
        0 next, or the parity flips, which are b + 1 mod n and the old parity plus (b + 1) div n - b div n. None for
        other choices."""
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

    def rebuilt(self, p: Poly, substitution: Mapping[Mono, Poly]) -> Poly:
        """A polynomial with monomials replaced, also within atoms."""
        if not isinstance(substitution, Same):
            substitution = Same(substitution)
        cached = substitution.found.get(p)
        if cached is None:
            cached = substitution.found[p] = self._replaced(p, substitution)
        return cached

    def _replaced(self, p: Poly, substitution: Same) -> Poly:
        changed = [(m, c) for m, c in p if any(not self.inside[a].isdisjoint(substitution.gone) for a in m)]
        if not changed:
            return p
        out = tuple(row for row in p if row not in changed)
        for m, c in changed:
            value = substitution.get(m)
            if value is None:
                value = number(1)
                for a in m:
                    value = times(
                        value, substitution[(a,)] if (a,) in substitution else self._rebuilt(a, substitution)
                    )
            out = plus(out, value, c)
        return out

    def _rebuilt(self, a: int, substitution: Same) -> Poly:
        if self.inside[a].isdisjoint(substitution.gone):
            return (((a,), 1),)
        kind, *args = self.keys[a]
        if kind in ("mod", "div"):
            return (self.mod if kind == "mod" else self.div)(self.rebuilt(args[0], substitution), args[1])
        if kind in ("min", "max"):
            return self.pick(kind, self.rebuilt(args[0], substitution), self.rebuilt(args[1], substitution))
        if kind == "ite":
            return self.choose(
                self.condition(args[0], substitution), *(self.rebuilt(p, substitution) for p in args[1:])
            )
        if kind == "wrap":
            return self.wrap(self.rebuilt(args[0], substitution), args[1])
        if kind == "app":
            return self.of("app", args[0], tuple(self.substituted(x, substitution) for x in args[1]))
        return (((a,), 1),)

    def substituted(self, x: Any, substitution: Mapping[Mono, Poly]) -> Any:
        """A polynomial or a condition with monomials replaced."""
        if isinstance(x, bool) or (x and isinstance(x[0], str)):
            return self.condition(x, substitution)
        return self.rebuilt(x, substitution)

    def condition(self, c: Cond, substitution: Mapping[Mono, Poly]) -> Cond:
        """A condition with monomials replaced in its polynomials, also within atoms."""
        if isinstance(c, bool):
            return c
        if c[0] == "is":
            return ("is", self.rebuilt(c[1], substitution))
        if c[0] in ("ge", "eq"):
            return (at_least if c[0] == "ge" else is_zero)(self.rebuilt(c[1], substitution))
        inner = [self.condition(x, substitution) for x in c[1:]]
        return negated(inner[0]) if c[0] == "not" else (both if c[0] == "and" else either)(*inner)

    def divided(self, x: Any, base: Poly | None, dividends: list[Poly]) -> int:
        """Collect in `dividends` the dividends in a polynomial or condition, outer ones first, each without its
        constant term and without the common factor of the rest. The result is the period, in units of `base`, after
        which all remainders of `base` and of its quotients repeat."""
        if not isinstance(x, tuple):
            return 1
        if x and isinstance(x[0], str):
            return lcm(*(self.divided(y, base, dividends) for y in x[1:]))
        total = 1
        for a in {a: None for m, _ in x for a in m}:
            kind, *args = self.keys[a]
            if kind in ("mod", "div"):
                factor = gcd(*(c for m, c in args[0] if m)) or 1
                rest = tuple((m, c // factor) for m, c in args[0] if m)
                dividends.append(rest)
                inner = self.divided(args[0], base, dividends)
                total = lcm(total, args[1] * inner if inner > 1 or rest == base else 1)
            elif kind != "sym":
                total = lcm(
                    total, *(self.divided(y, base, dividends) for y in (args[1] if kind == "app" else args))
                )
        return total


class Facts:
    """The facts that are known on a path: polynomials that are at least 0, and conditions that hold."""

    def __init__(self, atoms: Atoms, other: Facts | None = None) -> None:
        self.atoms = atoms
        self.ge: list[Poly] = list(other.ge) if other else []
        self.least: dict[Poly, int] = dict(other.least) if other else {}
        """The least constant term among facts p >= 0 with equal p apart from that term."""
        self.true: set[Cond] = set(other.true) if other else set()
        self.low: dict[int, Any] = dict(other.low) if other else {}
        self.high: dict[int, Any] = dict(other.high) if other else {}
        self.same = other.same if other else Same({})
        self.quotients: frozenset[int] = other.quotients if other else frozenset()
        """Quotients by unknown numbers whose bounds are among the facts."""
        self.with_: dict[Mono, tuple[tuple[Poly, int], ...]] = dict(other.with_) if other else {}
        """By monomial, the facts p >= 0 in which the monomial occurs, and its factors there."""
        self.ranges: dict[int | Poly, tuple[Any, Any]] = other.ranges if other else {}
        """The ranges of atoms and polynomials that have been computed; shared until one of the copies has other
        bounds."""
        self.shown: dict[tuple[Poly, int], bool] = other.shown if other else {}
        """Cached answers whether polynomials are at least 0, with the number of facts used; shared until a copy gets
        more facts."""
        self.sides: list[tuple[Cond, ...]] = list(other.sides) if other else []
        """Disjunctions, in each of which one condition holds."""

    def assume(self, c: Cond) -> None:
        """Add a condition, and of each disjunction the last condition that is not excluded."""
        self._hold(c)
        again = True
        while again:  # assume the last condition of each disjunction whose other conditions are excluded
            again = False
            for row in list(self.sides):
                now = [(d, self.atoms.condition(d, self.same)) for d in row]
                left = [d for d, e in now if self.decide(e, False, 1) is not False]
                if len(left) < 2:
                    self.sides.remove(row)
                    self._hold(left[0] if left else False)
                    again = True

    def _hold(self, c: Cond) -> None:
        self.true |= {c, self.atoms.condition(c, self.same)}
        if isinstance(c, bool):
            if not c:
                self.add(number(-1))
        elif c[0] == "and" or (c[0] == "not" and c[1][0] == "or"):
            for d in c[1:] if c[0] == "and" else map(negated, c[1][1:]):
                self._hold(d)
        elif c[0] in ("ge", "eq"):
            if c[0] == "eq":
                self._remainder(self.atoms.rebuilt(c[1], self.same))
                self.add(plus((), c[1], -1))
            self.add(c[1])
        if len(self.sides) < MAX_SIDES and (row := self._several(c)) is not None:
            self.sides.append(row)

    def _several(self, c: Cond) -> tuple[Cond, ...] | None:
        """The operands of a disjunction, of which at least one holds; None for other conditions."""
        if isinstance(c, bool) or c[0] == "or":
            return None if isinstance(c, bool) else c[1:]
        inner = c[1] if c[0] == "not" else c
        if c[0] == "not" and inner[0] == "and":
            return tuple(map(negated, inner[1:]))
        if c[0] == "not" and inner[0] == "eq":
            return at_least(plus(inner[1], number(-1))), at_least(plus(number(-1), inner[1], -1))
        for a in (m[0] for m, _ in inner[1] if len(m) == 1) if c[0] in ("ge", "eq") else ():
            kind, *args = self.atoms.keys[a]
            if kind == "ite":
                yes, no = (self.atoms.condition(c, {(a,): q}) for q in args[1:])
                return both(args[0], yes), both(negated(args[0]), no)
        return None

    def _remainder(self, p: Poly) -> None:
        """Use that p = 0: if this says that q mod n = r, then q = n (q div n) + r, which gives an atom of q as a
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
                if m[0] not in self.atoms.within(plus(q, ((m, c),), -1)) and m not in self.same:
                    dividend = plus(number(r), self.atoms.div(q, n), n)
                    self._replace(m[0], times(plus(dividend, plus(q, ((m, c),), -1), -1), number(c)))
                return

    def add(self, p: Poly) -> None:
        """Add the fact that a polynomial is at least 0, and its consequences for the bounds and values of atoms."""
        p = self.atoms.rebuilt(p, self.same) if self.same else p
        factor = gcd(*(c for m, c in p if m)) or 1
        p = tuple((m, c // factor) for m, c in p if c // factor)
        if p in self.ge or len(self.ge) > MAX_FACTS:
            return
        linear = [(m[0], c) for m, c in p if len(m) == 1]
        zero = bool(linear) and self.at_least(plus((), p, -1), 1)
        self.ge.append(p)
        self.shown = {}
        for m, c in p:
            self.with_[m] = (*self.with_.get(m, ()), (p, c))
        rest, end = split_constant(p)
        self.least[rest] = min(end, self.least.get(rest, end))
        self._tighten(p, 2)
        for a, c in linear:
            kind, *args = self.atoms.keys[a]
            if (kind == "min" and c > 0) or (kind == "max" and c < 0):
                for q in (
                    args
                ):  # only for this occurrence: at another one p may be smaller with one of the two operands
                    self.add(plus(p, plus(q, (((a,), 1),), -1), c))
            elif kind == "div" and abs(c) == 1:  # a bound on a quotient bounds its dividend
                rest = times(plus(p, (((a,), c),), -1), number(args[1]))
                self.add(plus(plus(rest, args[0], c), number(args[1] - 1 if c < 0 else 0)))
            elif kind == "app" and a not in self.quotients and (division := self.quotient(a)) is not None:
                self.quotients |= {a}
                rest = plus(division[0], times(division[1], (((a,), 1),)), -1)
                self.add(rest)
                self.add(plus(plus(division[1], number(-1)), rest, -1))
        for a, c in reversed(linear) if zero else ():
            rest = plus((((a,), c),), p, -1)
            if (
                abs(c) == 1
                and a not in self.atoms.within(rest)
                and (self.atoms.keys[a][0] == "sym" or constant(rest) is not None)
            ):
                self._replace(a, plus((), rest, c))
                return

    def _tighten(self, p: Poly, depth: int) -> None:
        """Tighten the bounds of the atoms in a fact p >= 0, and of those in other facts about the same atoms."""
        for a, c in [(m[0], c) for m, c in p if len(m) == 1]:
            high = self.interval(plus(p, (((a,), c),), -1))[1]
            if high == inf:
                continue
            ends, end = (self.low, -(high // c)) if c > 0 else (self.high, high // -c)
            if a not in ends or (end > ends[a] if c > 0 else end < ends[a]):
                ends[a], self.ranges = end, {}
                for q, _ in self.with_[(a,)] if depth else ():
                    self._tighten(q, depth - 1)

    def _replace(self, a: int, replacement: Poly) -> None:
        """Replace an atom, from now on, by a polynomial without it that it is equal to."""
        self.same = Same(
            {m: self.atoms.rebuilt(q, {(a,): replacement}) for m, q in self.same.items()}
            | {(a,): replacement}
        )
        for q in list(self.ge):
            changed = self.atoms.rebuilt(q, {(a,): replacement})
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
            if (
                function[0] in QUOTIENTS and len(args[1]) == 2
            ):  # the type may be too narrow for what a certificate names
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
            least = most = c
            for a in dict.fromkeys(m):
                ends = [x ** m.count(a) for x in self.bounds(a)]
                if m.count(a) % 2 == 0 and min(self.bounds(a)) < 0 < max(self.bounds(a)):
                    ends.append(0)
                ends = [0 if not x or not y else x * y for x in (least, most) for y in ends]
                least, most = min(ends), max(ends)
            low, high = low + least, high + most
        return low, high

    def at_least(self, p: Poly, depth: int = FACTS) -> bool:
        """Whether p >= 0 follows from ranges and a few facts, each used to cancel a monomial."""
        if self.interval(p)[0] >= 0:
            return True
        rest, end = split_constant(p)
        if end >= self.least.get(rest, inf):
            return True
        if not depth:
            return False
        cached = self.shown.get((p, depth))
        if cached is None:
            cached = self._searched(p, depth)
            self.shown[p, depth] = cached
        return cached

    def _searched(self, p: Poly, depth: int) -> bool:
        for m, c in p:
            kind, *args = self.atoms.keys[m[0]] if len(m) == 1 else ("",)
            if kind in ("min", "max", "ite"):
                if kind == "ite" or (kind == "min") == (
                    c > 0
                ):  # the atom equals one of its operands in all occurrences
                    return all(self.at_least(self.atoms.rebuilt(p, {m: q}), depth) for q in args[-2:])
                # p is at least as large with the atom as with one of its operands in this occurrence
                if any(self.at_least(plus(p, plus(q, ((m, 1),), -1), c), depth) for q in args):
                    return True
        bad = [(self.interval(((m, c),))[0], m, c) for m, c in p if m]
        bad = [x for x in bad if x[0] == -inf][:1] or [x for x in bad if x[0] < 0]
        for _, m, c in bad:
            for q, d in self._about(m, p):
                if c * d > 0:
                    rest = plus(
                        plus(number(abs(d) - 1), p, abs(d)), q, -abs(c)
                    )  # p is an integer, so |d| p > -|d| suffices
                    factor = gcd(*(n for k, n in rest if k)) or 1
                    if self.at_least(tuple((k, n // factor) for k, n in rest if n // factor), depth - 1):
                        return True
        for m, _ in p:  # p is an integer, so y p > -y suffices
            if len(m) == 1 and (division := self.quotient(m[0])) is not None:
                y = division[1]
                return self.at_least(plus(plus(times(p, y), y), number(-1)), depth - 1)
        return False

    def quotient(self, a: int) -> tuple[Poly, Poly] | None:
        """The dividend x and the divisor y of an atom that is x div y, where y is not a constant, and known to be
        positive; None for other atoms."""
        kind, *args = self.atoms.keys[a]
        if kind != "app" or args[0][0] not in QUOTIENTS or len(args[1]) != 2:
            return None
        t = DTYPES.get(args[0][3])
        if t is None or not t.is_int:
            return None
        x, y = args[1]
        positive = self.interval(y)[0] >= 1 or self.at_least(plus(y, number(-1)), 1)
        down = args[0][0] == "floordiv" or (positive and self.at_least(x, 1))
        return (x, y) if positive and down else None

    def _about(self, m: Mono, p: Poly) -> Iterator[tuple[Poly, int]]:
        """The facts that may cancel a monomial, with the factors of the monomial in them: all facts, a fact times a
        monomial that is not negative, and the bounds of quotients in p."""
        yield from self.with_.get(m, ())
        for k in range(len(m)) if len(m) == 2 else ():
            if self.bounds(m[k])[0] >= 0:
                yield from ((times(q, (((m[k],), 1),)), d) for q, d in self.with_.get((m[1 - k],), ()))
        if len(m) == 1 and self.bounds(m[0])[0] >= 0:
            for a in (pair[1 - pair.index(m[0])] for pair, _ in p if len(pair) == 2 and m[0] in pair):
                for q, _ in self.with_.get((a,), ()):
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
            if (division := self.quotient(a)) is not None:  # y q <= x <= y q + y - 1
                rest = plus(division[0], times(division[1], (((a,), 1),)), -1)
                for bound in (rest, plus(plus(division[1], number(-1)), rest, -1)):
                    yield bound, dict(bound).get(m, 0)

    def decide(self, c: Cond, residues: bool = True, max_facts: int = FACTS) -> bool | None:
        """Whether a condition follows (True), or its negation (False); None if neither is found to. `max_facts`: the
        largest number of facts to combine for an inequality."""
        if self.same and residues:
            c = self.atoms.condition(c, self.same)
        if residues:
            c = self._resolved(c)
        if isinstance(c, bool):
            return c
        if c in self.true or negated(c) in self.true:
            return c in self.true
        if c[0] == "not":
            inner = self.decide(c[1], residues, max_facts)
            return None if inner is None else not inner
        if c[0] in ("and", "or"):
            parts = [self.decide(x, residues, max_facts) for x in c[1:]]
            wins = c[0] == "or"
            return wins if wins in parts else (None if None in parts else not wins)
        p = c[1] if c[0] in ("ge", "eq") else ()
        above, below = (plus(q, number(-1)) for q in (p, plus((), p, -1)))
        for depth in (
            range(1, max_facts + 1) if c[0] in ("ge", "eq") else ()
        ):  # few facts first: one of the two opposite conditions never follows
            if c[0] == "ge" and self.at_least(p, depth):
                return True
            if c[0] == "eq" and self.at_least(p, depth) and self.at_least(plus((), p, -1), depth):
                return True
            if self.at_least(below, depth) or (c[0] == "eq" and self.at_least(above, depth)):
                return False
        successor = plus(p, number(1))
        if c[0] == "ge" and residues and self.at_least(successor, 1) and self._never(successor):
            return True  # p >= -1 is known, and p = -1 is excluded
        return self._by_residues(c) if residues else None

    def _resolved(self, c: Cond) -> Cond:
        """A condition with each minimum, maximum and choice replaced by the operand that is known to be selected."""
        for a in sorted(self.atoms.within(c)):
            kind, *args = self.atoms.keys[a]
            if kind == "ite" and (truth := self.decide(args[0], False)) is not None:
                return self._resolved(self.atoms.condition(c, {(a,): args[1 if truth else 2]}))
            if kind in ("min", "max"):
                p, q = args
                less = self.at_least(plus(q, p, -1), FACTS - 1)
                if less or self.at_least(plus(p, q, -1), FACTS - 1):
                    return self._resolved(
                        self.atoms.condition(c, {(a,): p if less == (kind == "min") else q})
                    )
        return c

    def _never(self, p: Poly) -> bool:
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
        return any(self.decide(self.atoms.condition(t, substitution), False) is False for t in self.true)

    def _by_residues(self, c: Cond) -> bool | None:
        """The truth of a condition, where it is the same for each residue of a dividend b in it, or in a known
        condition about its atoms: b = n h + r, for each r < n; None where it is not."""
        bases: list[Poly] = []
        self.atoms.divided(c, None, bases)
        about = self.atoms.within(c)
        substitution = {m: q for m, q in self.same.items() if self.atoms.keys[m[0]][0] == "sym"}
        true = [
            t
            for t in (self.atoms.condition(t, substitution) for t in self.true)
            if about & self.atoms.within(t)
        ]
        for t in true:
            self.atoms.divided(t, None, bases)
        for base in dict.fromkeys(bases):
            pivot = next(((m, k) for m, k in reversed(base) if abs(k) == 1), None)
            related = [t for t in true if self._divides(t, base)]
            n = self.atoms.divided(c, base, [])
            if n == 1 and (n := lcm(*(self.atoms.divided(t, base, []) for t in related))) > STRIP:
                continue
            if pivot is None or not 1 < n <= PERIOD:
                continue
            h = self.atoms.of("sym", ("quotient", base, n))
            rest = plus((pivot,), base, -1)
            facts = Facts(self.atoms, self)
            facts.shown, facts.ranges = {}, {}  # the quotient h has tighter bounds now
            if self.at_least(base):
                facts.low[h[0][0][0]] = 0
            answers = set[bool | None]()
            near = [q for q in self.ge if any(m == pivot[0] for m, _ in q)]
            for r in range(n):
                b = plus(plus(number(r), h, n), rest)
                substitution = {pivot[0]: plus((), b, pivot[1])}
                if any(facts.decide(self.atoms.condition(t, substitution), False) is False for t in related):
                    continue
                answer = facts.decide(self.atoms.condition(c, substitution), False)
                if near and answer not in answers - {None} and (answer is None or answers):
                    nearer = Facts(self.atoms, facts)
                    for q in near:
                        nearer.add(self.atoms.rebuilt(q, substitution))
                    if any(
                        (constant(q) or 0) < 0 or nearer.at_least(plus(number(-1), q, -1)) for q in nearer.ge
                    ):
                        continue
                    answer = nearer.decide(self.atoms.condition(c, substitution), False)
                answers.add(answer)
                if len(answers) > 1 or None in answers:
                    break
            else:
                return answers.pop() if answers else None
        return None

    def _divides(self, c: Cond, base: Poly) -> bool:
        dividends: list[Poly] = []
        self.atoms.divided(c, None, dividends)
        return base in dividends

    def equal(self, p: Poly, q: Poly) -> bool:
        """Whether two polynomials are known to be equal."""
        return p == q or self.decide(is_zero(plus(p, q, -1))) is True
