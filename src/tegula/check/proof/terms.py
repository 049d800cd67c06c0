"""Terms of the prover: polynomials over atoms, and conditions on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from math import gcd, inf, lcm
from operator import and_, lshift, or_, rshift, xor
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

from tegula.types import DTYPES, DType

Condition: TypeAlias = Any
"""True, False, or a tuple: ("ge", p) means p >= 0, ("eq", p) p = 0, ("is", p) that the bool p is true; ("not", c),
("and", c, d), ("or", c, d)."""


MAX_LENGTH = 8_000
"""The maximum length of a term in characters; each nested choice doubles the length."""


class TooLong(Exception):
    """A term that the prover cannot express."""


class Atom:
    """An atom of polynomials: a symbol, or a function that arithmetic does not expand. `kind` and `subterms` are as in
    certificates (docs/design/042-certificates.md); the subterms of a symbol end with its range. `inside`: all atoms in
    the atom, itself included; `limits`: the range of the atom for arbitrary arguments. Atoms are unique by name, and
    compared as objects."""

    __slots__ = ("__weakref__", "inside", "kind", "limits", "name", "subterms")
    kind: str
    subterms: Any
    name: str
    inside: frozenset[Atom]
    limits: tuple[Any, Any]

    def __new__(cls, kind: str, *args: Any) -> Atom:
        name = f"{kind}({', '.join(map(str, args))})"
        known = ATOMS.get(name)
        if known is not None:
            return known
        if len(name) > MAX_LENGTH:
            raise TooLong
        atom = ATOMS[name] = super().__new__(cls)
        atom.kind, atom.subterms, atom.name = kind, args, name
        atom.inside = frozenset((atom,)).union(*map(inside, args))
        atom.limits = _limits(kind, args)
        return atom

    def __lt__(self, other: Atom) -> bool:
        return self.name < other.name

    def __repr__(self) -> str:
        return self.name


def _limits(kind: str, args: tuple[Any, ...]) -> tuple[Any, Any]:
    if kind == "mod":
        return 0, args[1] - 1
    if kind == "wrap":
        return range_of_type(DTYPES[args[1]])
    if kind == "app":
        return range_of_function(args[0])
    return args[1:] if kind == "sym" and len(args) > 1 else (-inf, inf)


ATOMS: WeakValueDictionary[str, Atom] = WeakValueDictionary()


def inside(x: Any) -> frozenset[Atom]:
    """All atoms in a sum, a condition or an argument of an atom."""
    if isinstance(x, Sum):
        return x.inside
    return frozenset().union(*map(inside, x)) if isinstance(x, tuple) else frozenset()


Monomial: TypeAlias = tuple[Atom, ...]


class Sum:
    """A polynomial: its monomials with their coefficients."""

    __slots__ = ("_divided", "_hash", "_inside", "_rest", "coefficients")
    _divided: tuple[Sum, ...]
    _hash: int
    _inside: frozenset[Atom]
    _rest: Sum

    def __init__(self, coefficients: Mapping[Monomial, int]) -> None:
        self.coefficients = (
            {m: c for m, c in coefficients.items() if c} if 0 in coefficients.values() else coefficients
        )

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Sum) and self.coefficients == other.coefficients)

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            self._hash = hash_value = hash(frozenset(self.coefficients.items()))
            return hash_value

    def __add__(self, other: Sum | int) -> Sum:
        return self._plus(other, 1)

    def __neg__(self) -> Sum:
        return self * -1

    def __sub__(self, other: Sum | int) -> Sum:
        return self._plus(other, -1)

    def _plus(self, other: Sum | int, factor: int) -> Sum:
        out = dict(self.coefficients)
        if not out and factor == 1 and not isinstance(other, int):
            return other
        for m, c in (((), other),) if isinstance(other, int) else other.coefficients.items():
            total = out.get(m, 0) + c * factor
            if total:
                out[m] = total
            else:
                out.pop(m, None)
        return of_nonzero(out)

    def __mul__(self, other: Sum | int) -> Sum:
        if isinstance(other, int):
            if other == 1:
                return self
            return of_nonzero({m: c * other for m, c in self.coefficients.items()} if other else {})
        out: dict[Monomial, int] = {}
        for m, c in self.coefficients.items():
            for n, d in other.coefficients.items():
                key = tuple(sorted((*m, *n))) if m and n else m or n
                out[key] = out.get(key, 0) + c * d
        return Sum(out)

    @property
    def value(self) -> int | None:
        """The value of a constant polynomial; None if an atom occurs."""
        if not self.coefficients:
            return 0
        return self.coefficients.get((), None) if len(self.coefficients) == 1 else None

    @property
    def rest(self) -> Sum:
        """The polynomial without its constant term."""
        try:
            return self._rest
        except AttributeError:
            has_constant = () in self.coefficients
            self._rest = without_constant = (
                of_nonzero({m: c for m, c in self.coefficients.items() if m}) if has_constant else self
            )
            return without_constant

    @property
    def inside(self) -> frozenset[Atom]:
        """All atoms in the polynomial."""
        try:
            return self._inside
        except AttributeError:
            self._inside = atoms = frozenset[Atom]().union(*(a.inside for m in self.coefficients for a in m))
            return atoms

    @property
    def divided(self) -> tuple[Sum, ...]:
        """The sums that are divided in the polynomial (see `primitive`), outer ones first."""
        try:
            return self._divided
        except AttributeError:
            out: list[Sum] = []
            for a in sorted(self.atoms()):
                if a.kind in ("mod", "div"):
                    out.append(primitive(a.subterms[0]))
                if a.kind != "sym":
                    out += divided(a.subterms)
            self._divided = (*out,)
            return self._divided

    def atoms(self) -> set[Atom]:
        """The atoms of the monomials, without those inside of other atoms."""
        return {a for m in self.coefficients for a in m}

    def __str__(self) -> str:
        monomials = [
            "*".join(map(str, ([c] if c != 1 or not m else []) + list(m)))
            for m, c in sorted(self.coefficients.items())
        ]
        return " + ".join(monomials) or "0"

    __repr__ = __str__


def of_nonzero(coefficients: dict[Monomial, int]) -> Sum:
    """The polynomial with these coefficients, none of which is 0."""
    out = object.__new__(Sum)
    out.coefficients = coefficients
    return out


def number(n: Sum | int) -> Sum:
    """An integer as a polynomial; a polynomial is unchanged."""
    return n if isinstance(n, Sum) else Sum({(): n})


def atom(kind: str, *args: Any) -> Sum:
    """The polynomial that is one atom of a kind with its arguments; a number for a bit operation on numbers."""
    if kind == "app" and args[0][0] in BIT_OPERATIONS and all(isinstance(x, Sum) for x in args[1]):
        numbers = [x.value for x in args[1]]
        result = None if None in numbers else bit_operation(args[0], numbers)
        if result is not None:
            return number(result)
    return Sum({(Atom(kind, *args),): 1})


BIT_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "and": and_,
    "or": or_,
    "xor": xor,
    "shl": lshift,
    "shr": rshift,
}


def bit_operation(function: tuple[Any, ...], operands: Sequence[Any]) -> int | None:
    """The result of a bit operation on two integers of its type; None where this is not an integer of the type, where
    bits of a negative number are shifted, or for a distance that is not less than 32."""
    low, high = range_of_type(DTYPES.get(function[3]))
    x, y = operands
    if function[0] in ("shl", "shr") and not (x >= 0 and 0 <= y < 32):
        return None
    result = BIT_OPERATIONS[function[0]](x, y)
    return result if all(low <= n <= high for n in (x, y, result)) else None


# Functions ------------------------------------------------------------------------------------------------------------


def mod(p: Sum, n: int) -> Sum:
    """The remainder of a polynomial in 0 ... n - 1, with the factors of its monomials reduced modulo n."""
    out = number(0)
    for m, c in p.coefficients.items():
        inner = m[0] if len(m) == 1 else None
        is_multiple = inner is not None and inner.kind == "mod" and inner.subterms[1] % n == 0
        out += (inner.subterms[0] if inner is not None and is_multiple else Sum({m: 1})) * c
    out = Sum({m: c % n for m, c in out.coefficients.items()})
    return out if out.value is not None else atom("mod", out, n)


def div(p: Sum, n: int) -> Sum:
    """The quotient of a polynomial by n, rounded down: multiples of n are divided, the rest is in an atom."""
    quotient = Sum({m: c // n for m, c in p.coefficients.items()})
    rest = Sum({m: c % n for m, c in p.coefficients.items()})
    if rest.value is not None:
        return quotient
    inner = next(iter(rest.coefficients))
    if rest == Sum({inner: 1}) and len(inner) == 1 and inner[0].kind == "mod":
        dividend, period = inner[0].subterms
        if period % n == 0:
            return quotient + mod(div(dividend, n), period // n)
    return quotient + atom("div", rest, n)


def multiplied(p: Sum, n: int) -> Sum:
    """The polynomial n p; for a quotient that is multiplied by its divisor, the dividend minus the remainder."""
    out = p * n
    for m, c in p.coefficients.items():
        if len(m) == 1 and m[0].kind == "div":
            dividend, divisor = m[0].subterms
            if c * n % divisor == 0:
                out += (dividend - mod(dividend, divisor)) * (c * n // divisor) - Sum({m: c * n})
    return out


def wrapped(p: Sum, name: str) -> Sum:
    """An integer after it wraps to the type of this name: a remainder, or, of signed types of 32 and 64 bits, an atom
    of which only the range is known."""
    t = DTYPES[name]
    low, high = range_of_type(t)
    if p.value is None and t.is_signed and t.bits > 16:
        return atom("wrap", p, name)
    return mod(p - low, high - low + 1) + low


def extreme(kind: str, p: Sum, q: Sum) -> Sum:
    """The smaller ("min") or the greater ("max") of two polynomials."""
    d = (p - q).value
    if d is not None:
        return p if (d <= 0) == (kind == "min") else q
    return atom(kind, *sorted((p, q), key=str))


def choice(c: Condition, p: Sum, q: Sum) -> Sum:
    """The polynomial p where a condition holds, and q where it does not."""
    if isinstance(c, bool):
        return p if c else q
    return p if p == q else _next_stage_or_parity(c, p, q) or atom("ite", c, p, q)


def _next_stage_or_parity(c: Condition, p: Sum, q: Sum) -> Sum | None:
    """The next stage or parity in closed form, if the condition selects the last stage, b mod n = n - 1: there the next
    stage is 0, also counted from another number or downwards, or the parity flips. None for other choices."""
    remainders = [a for a in c[1].atoms() if a.kind == "mod"] if c[0] == "eq" else []
    if len(remainders) != 1:
        return None
    b, n = remainders[0].subterms
    stage = Sum({(remainders[0],): 1})
    if c == eq(stage) and q - p == stage - n:
        return p - (n - 1) + mod(b - 1, n)
    if c != eq(stage - (n - 1)):
        return None
    for sign in (1, -1):
        if q - p == (stage + 1) * sign:
            return p + mod(b + 1, n) * sign
    parity = next((a for a in q.atoms() if a.kind == "mod" and a.subterms[1] == 2), None)
    if parity is None or q != Sum({(parity,): 1}) or p != number(1) - q:
        return None
    for m, k in parity.subterms[0].coefficients.items():
        if (
            k == 1
            and len(m) == 1
            and m[0].kind == "div"
            and m[0].subterms[1] == n
            and mod(m[0].subterms[0], n) == stage
        ):
            return mod(parity.subterms[0] - Sum({m: 1}) + div(m[0].subterms[0] + 1, n), 2)
    return None


def ge(p: Sum) -> Condition:
    """The condition that a polynomial is at least 0."""
    return ("ge", p) if p.value is None else p.value >= 0


def eq(p: Sum) -> Condition:
    """The condition that a polynomial is 0, in the same form for p and -p."""
    if p.value is not None:
        return p.value == 0
    return ("eq", max(p, -p, key=str))


def negation(c: Condition) -> Condition:
    """The negation of a condition."""
    if isinstance(c, bool):
        return not c
    return c[1] if c[0] == "not" else ge(-c[1] - 1) if c[0] == "ge" else ("not", c)


def conjunction(c: Condition, d: Condition) -> Condition:
    """The conjunction of two conditions."""
    if c is True or d is True:
        return d if c is True else c
    return False if c is False or d is False else ("and", c, d)


def disjunction(c: Condition, d: Condition) -> Condition:
    """The disjunction of two conditions."""
    if c is False or d is False:
        return d if c is False else c
    return True if c is True or d is True else ("or", c, d)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "mod": mod,
    "div": div,
    "min": lambda p, q: extreme("min", p, q),
    "max": lambda p, q: extreme("max", p, q),
    "ite": choice,
    "ge": ge,
    "eq": eq,
    "not": negation,
    "and": conjunction,
    "or": disjunction,
    "is": lambda p: ("is", p),
    "wrap": wrapped,
}


def replaced(x: Any, substitution: Mapping[Monomial, Sum]) -> Any:
    """A sum or condition with monomials replaced, also inside of atoms."""
    return _replaced(x, substitution, frozenset(a for m in substitution for a in m))


def _replaced(x: Any, substitution: Mapping[Monomial, Sum], atoms: frozenset[Atom]) -> Any:
    if isinstance(x, tuple):
        if x and x[0] in FUNCTIONS:
            return FUNCTIONS[x[0]](*(_replaced(y, substitution, atoms) for y in x[1:]))
        return tuple(_replaced(y, substitution, atoms) for y in x)
    if not isinstance(x, Sum):
        return x
    unchanged: dict[Monomial, int] = {}
    changed = ZERO
    for m, c in x.coefficients.items():
        if all(a.inside.isdisjoint(atoms) for a in m):
            unchanged[m] = c
        else:
            changed += _monomial(m, substitution, atoms) * c
    return x if len(unchanged) == len(x.coefficients) else changed + Sum(unchanged)


def _monomial(m: Monomial, substitution: Mapping[Monomial, Sum], atoms: frozenset[Atom]) -> Sum:
    if m in substitution:
        return substitution[m]
    out = number(1)
    for a in m:
        out *= substitution[(a,)] if (a,) in substitution else _atom(a, substitution, atoms)
    return out


def _atom(a: Atom, substitution: Mapping[Monomial, Sum], atoms: frozenset[Atom]) -> Sum:
    if a.inside.isdisjoint(atoms) or a.kind == "sym":
        return Sum({(a,): 1})
    if a.kind == "app":
        return atom("app", a.subterms[0], tuple(_replaced(x, substitution, atoms) for x in a.subterms[1]))
    args = [_replaced(x, substitution, atoms) for x in a.subterms]
    return FUNCTIONS[a.kind](*args) if a.kind in FUNCTIONS else atom(a.kind, *args)


def quotient(a: Atom) -> tuple[Sum, Sum] | None:
    """The dividend and the divisor of a quotient of integers by a number that is not a constant; None for other
    atoms."""
    if a.kind != "app" or a.subterms[0][0] not in ("floordiv", "div") or len(a.subterms[1]) != 2:
        return None
    t = DTYPES.get(a.subterms[0][3])
    return a.subterms[1] if t is not None and t.is_int else None


ZERO = Sum({})


def symbols(x: Any) -> set[Atom]:
    """The symbols in a sum or condition."""
    return {a for a in inside(x) if a.kind == "sym"}


def primitive(p: Sum) -> Sum:
    """A polynomial without its constant term, divided by the common factor of its coefficients."""
    n = gcd(*p.rest.coefficients.values()) or 1
    return Sum({m: c // n for m, c in p.rest.coefficients.items()})


def divided(x: Any) -> tuple[Sum, ...]:
    """The sums that are divided in a sum or condition (see `primitive`), outer ones first."""
    if isinstance(x, Sum):
        return x.divided
    return tuple(chain(*map(divided, x))) if isinstance(x, tuple) else ()


def period(x: Any, base: Sum) -> int:
    """The number after which all remainders of a base, and of its quotients, repeat."""
    if isinstance(x, tuple):
        return lcm(*(period(y, base) for y in x if isinstance(y, tuple | Sum)))
    result = 1
    for a in x.atoms() if isinstance(x, Sum) else ():
        if a.kind == "sym":
            continue
        if a.kind in ("mod", "div"):
            is_base = primitive(a.subterms[0]) == base
            inner = 1 if is_base else period(a.subterms[0], base)
            result = lcm(result, inner * a.subterms[1] if inner > 1 or is_base else 1)
        else:
            result = lcm(result, period(a.subterms, base))
    return result


def encoded(x: Any, bound: Mapping[Atom, int]) -> Any:
    """The encoding of a sum, condition or atom in certificates; `bound`: the numbers of symbols."""
    if isinstance(x, bool | int | str):
        return x
    if isinstance(x, Atom):
        if x.kind == "sym":
            return ["s", bound[x]]
        if x.kind == "app":
            return ["app", list(x.subterms[0]), [encoded(y, bound) for y in x.subterms[1]]]
        return [x.kind, *(encoded(y, bound) for y in x.subterms)]
    if isinstance(x, Sum):
        if x.value is not None:
            return x.value
        rows: list[Any] = []
        for m, c in sorted(x.coefficients.items()):
            factors = ([c] if c != 1 or not m else []) + [encoded(a, bound) for a in m]
            rows.append(factors[0] if len(factors) == 1 else ["*", *factors])
        return rows[0] if len(rows) == 1 else ["+", *rows]
    return [x[0], *(encoded(y, bound) for y in x[1:])]


# Ranges ---------------------------------------------------------------------------------------------------------------

MAX_INT32 = 2**31 - 1
RANGES_OF_LAUNCH = {
    "array.shape": (0, MAX_INT32),
    "tid": (0, MAX_INT32),
    "block.index": (0, MAX_INT32),
    "block.count": (1, MAX_INT32),
}


def range_of_type(t: Any) -> tuple[Any, Any]:
    """The minimum and the maximum of a type."""
    if not isinstance(t, DType) or t.is_float:
        return -inf, inf
    if t.kind == "b":
        return 0, 1
    half = 1 << (t.bits - 1)
    return (-half, half - 1) if t.is_signed else (0, 2 * half - 1)


def range_of_function(function: tuple[Any, ...]) -> tuple[Any, Any]:
    """The minimum and the maximum of a function's results: a limit of launches, or the range of the result's type."""
    if function[0] == "logical_blocks" and function[2] == 2:
        return 1, inf
    return RANGES_OF_LAUNCH.get(function[0], range_of_type(DTYPES.get(function[3])))


def of_launch(c: Condition) -> bool:
    """Whether a condition depends on parameters and shapes alone, not on array elements."""
    return all(a.kind != "app" or a.subterms[0][0] != "array.load" for a in inside(c))
