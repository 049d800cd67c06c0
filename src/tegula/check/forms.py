"""Normal forms of scalars: sums of terms with integer factors. Two values with equal forms are equal in every launch.

Integers are taken as unbounded: no bound of a loop overflows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import gcd
from typing import Any

from tegula.dataclass import dataclass
from tegula.ir import Kernel, Op, Region, Value
from tegula.ops import scalar as S
from tegula.ops.array import ArrayLoad, ArrayShape
from tegula.ops.control import For, If, While
from tegula.ops.convert import Cast
from tegula.ops.lane import BlockCount, BlockIndex, LogicalBlocks, Tid
from tegula.ops.schedule import PairEnd
from tegula.passes.overlap import array_root, overlap
from tegula.types import DType

LEAVES = ("param", "shape", "block.index", "block.count", "blocks", "tid", "load")


@dataclass(frozen=True, slots=True)
class Term:
    """Something that is not a sum: a value of the launch (kinds LEAVES), an index of a loop, or an operation on forms
    that is not resolved."""

    kind: str
    parts: tuple[Any, ...] = ()

    @property
    def leaf(self) -> bool:
        return self.kind in LEAVES

    def forms(self) -> Iterator[Form]:
        yield from (p for p in self.parts if isinstance(p, Form))


@dataclass(frozen=True, slots=True)
class Form:
    """constant + sum of factor * term."""

    constant: int = 0
    terms: frozenset[tuple[Term, int]] = frozenset()

    def __add__(self, other: Form) -> Form:
        return self.plus(other, 1)

    def __sub__(self, other: Form) -> Form:
        return self.plus(other, -1)

    def plus(self, other: Form, times: int) -> Form:
        found = dict(self.terms)
        for term, factor in other.terms:
            found[term] = found.get(term, 0) + times * factor
        kept = frozenset((t, f) for t, f in found.items() if f)
        return Form(self.constant + times * other.constant, kept)

    def times(self, n: int) -> Form:
        return Form().plus(self, n)

    @property
    def number(self) -> int | None:
        return None if self.terms else self.constant

    @property
    def content(self) -> int:
        """The greatest common divisor of its numbers; 1 for 0."""
        return gcd(self.constant, *(f for _, f in self.terms)) or 1

    def divided(self, n: int) -> Form:
        """The form divided by a number that divides it."""
        return Form(self.constant // n, frozenset((t, f // n) for t, f in self.terms))

    def leaves(self) -> Iterator[Term]:
        """The values of the launch that it depends on, in no order."""
        for term in self.all_terms():
            if term.leaf:
                yield term

    def all_terms(self) -> Iterator[Term]:
        for term, _ in self.terms:
            yield term
            for inner in term.forms():
                yield from inner.all_terms()


def spelled(part: Any) -> str:
    """A form, term or part of one as text, the same in every process."""
    if isinstance(part, Form):
        terms = sorted(f"{factor}*{spelled(term)}" for term, factor in part.terms)
        return f"({' + '.join([str(part.constant), *terms])})"
    if isinstance(part, Term):
        return f"{part.kind}[{', '.join(map(spelled, part.parts))}]"
    if isinstance(part, Value):
        return repr(part)
    return str(part)


def simplest_first(form: Form) -> tuple[int, str]:
    """A key to sort forms by."""
    return sum(1 for _ in form.all_terms()), spelled(form)


def of_term(term: Term) -> Form:
    return Form(0, frozenset({(term, 1)}))


def constant(n: int) -> Form:
    return Form(n)


def floor_divided(form: Form, n: int) -> Form:
    """The form divided by a positive number, rounded down; a quotient of a quotient is one."""
    whole = Form(form.constant // n, frozenset((t, f // n) for t, f in form.terms if f % n == 0))
    rest = Form(form.constant % n, frozenset((t, f) for t, f in form.terms if f % n))
    if not rest.terms:
        return whole
    inner = quotient(rest)
    if inner is not None:
        return whole + floor_divided(inner[0], n * inner[1])
    return whole + of_term(Term("floordiv", (rest, constant(n))))


def quotient(form: Form) -> tuple[Form, int] | None:
    """The form as another one divided by a number and rounded down, where it is a quotient or a number beside one."""
    if len(form.terms) != 1:
        return None
    ((term, factor),) = form.terms
    known = by_number(term)
    if known is None or factor != 1:
        return None
    above, below = known
    return above + constant(form.constant * below), below


def by_number(term: Term) -> tuple[Form, int] | None:
    """What a quotient that is rounded down divides, and by what number; None for other terms, such as a quotient whose
    divisor only the launch knows."""
    if term.kind != "floordiv" or len(term.parts) != 2:
        return None
    above, below = term.parts
    if not isinstance(above, Form) or not isinstance(below, Form) or below.number is None:
        return None
    return above, below.number


def divided_rest(form: Form) -> tuple[Form, int, int] | None:
    """What is divided, by what number, and what must be left over for the form to be 0; None for other forms."""
    for sign in (1, -1):
        turned = form.times(sign)
        for term, factor in turned.terms:
            by = rest_by(term)
            if by is not None and factor == 1 and len(turned.terms) == 1:
                return term.parts[0], by, -turned.constant
            divided = by_number(term)
            if divided is not None and factor < 0 and divided[1] == -factor:
                above = divided[0]
                over = (turned + of_term(term).times(-factor) - above).number
                if over is not None:
                    return above, -factor, -over
    return None


class Forms:
    """The forms of a kernel's values."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.known: dict[Value, Form] = {}
        self.turning: dict[Value, list[Value]] = {}
        """What the loops carry whose rounds are looked at, with all of the same loop that was met, in the order met."""
        self.written = [
            e.value
            for op in kernel.walk()
            for e in op.effects()
            if e.value is not None and e.kind in ("write", "atomic") and hasattr(e.value.type, "ndim")
        ]

    def of(self, value: Value) -> Form:
        if value not in self.known:
            self.known[value] = self._made(value)
        return self.known[value]

    def truth(self, condition: Value) -> bool | None:
        """Whether a condition always holds, or never; None where that is not known."""
        op = condition.owner
        if isinstance(op, S.Const):
            return bool(op.attrs["value"])
        if not isinstance(op, S.Cmp) or not _is_int(op.operands[0]):
            return None
        difference = (self.of(op.operands[0]) - self.of(op.operands[1])).number
        return None if difference is None else bool(S.COMPARISONS[op.attrs["pred"]](difference, 0))

    def _made(self, value: Value) -> Form:
        owner = value.owner
        if isinstance(owner, Region):
            return self._argument(value, owner)
        assert owner is not None
        if isinstance(owner, Tid):
            return of_term(Term("tid", (owner.results.index(value),)))
        if isinstance(owner, LogicalBlocks):
            return of_term(Term(("block.index", "blocks", "block.count")[owner.results.index(value)]))
        if isinstance(owner, If) and _is_int(value):
            return self._branch(owner, owner.results.index(value))
        rule = _RULES.get(type(owner))
        if rule is not None:
            return rule(self, owner)
        if isinstance(owner, Op) and owner.PURE and not owner.COOPERATIVE and not owner.regions:
            return self._opaque(owner)
        return of_term(Term("value", (value,)))

    def _argument(self, value: Value, region: Region) -> Form:
        loop = region.parent
        if loop is None and value in self.kernel.params:
            return of_term(Term("param", (self.kernel.params.index(value),)))
        if isinstance(loop, For) and value is region.args[0]:
            return of_term(Term("index", (*(self.of(v) for v in loop.operands[:3]), depth(loop))))
        if value in self.turning:
            met = self.turning[value]
            if value not in met:
                met.append(value)
            return of_term(Term("turn", (depth(loop), met.index(value))))  # type: ignore[arg-type]
        if isinstance(loop, For) and _is_int(value):
            return of_term(Term("carried", self._recurrence(loop, value)))
        return of_term(Term("value", (value,)))

    def _recurrence(self, loop: Op, value: Value) -> tuple[Form | int, ...]:
        """What a loop carries at one place in a round: the round, how many numbers it takes to say so, what these are
        before the loop, and what a round makes of them."""
        (body,) = loop.regions
        met = [value]
        outside, around = self.known, self.turning
        self.known = {v: form for v, form in outside.items() if not _within(v, body)}
        self.turning = {**around, **dict.fromkeys(body.args[1:], met)}
        ends = list[Form]()
        while len(ends) < len(met):
            ends.append(self.of(body.terminator.operands[body.args.index(met[len(ends)]) - 1]))
        self.known, self.turning = outside, around
        starts = [self.of(loop.operands[2 + body.args.index(v)]) for v in met]
        return self.of(body.args[0]), len(met), *starts, *ends

    def _branch(self, op: Op, k: int) -> Form:
        """What one of two branches gives."""
        ways = (self.of(region.terminator.operands[k]) for region in op.regions)
        return of_term(Term("if", (self.of(op.operands[0]), *ways)))

    def _opaque(self, op: Op) -> Form:
        attrs = tuple(sorted((k, repr(v)) for k, v in op.attrs.items()))
        return of_term(Term(op.NAME, (attrs, *(self.of(v) for v in op.operands))))

    # Rules -----------------------------------------------------------------------------------------------------------

    def constant(self, op: Op) -> Form:
        value = op.attrs["value"]
        return constant(int(value)) if isinstance(value, int | bool) else self._opaque(op)

    def add(self, op: Op) -> Form:
        return self._sum(op, 1)

    def sub(self, op: Op) -> Form:
        return self._sum(op, -1)

    def _sum(self, op: Op, sign: int) -> Form:
        if not _is_int(op.result):
            return self._opaque(op)
        return self.of(op.operands[0]).plus(self.of(op.operands[1]), sign)

    def mul(self, op: Op) -> Form:
        a, b = (self.of(v) for v in op.operands)
        if not _is_int(op.result):
            return self._opaque(op)
        for x, y in ((a, b), (b, a)):
            if x.number is not None:
                return y.times(x.number)
        return of_term(Term("mul", tuple(sorted((a, b), key=simplest_first))))

    def floordiv(self, op: Op) -> Form:
        a, b = (self.of(v) for v in op.operands)
        n = b.number
        if not _is_int(op.result) or n is None or n <= 0:
            return self._opaque(op)
        return floor_divided(a, n)

    def shift(self, op: Op) -> Form:
        """A product or quotient with a power of two."""
        a, n = self.of(op.operands[0]), self.of(op.operands[1]).number
        if not _is_int(op.result) or n is None or not 0 <= n < 31:
            return self._opaque(op)
        return a.times(1 << n) if isinstance(op, S.Shl) else floor_divided(a, 1 << n)

    def mask(self, op: Op) -> Form:
        """The rest of a division by a power of two."""
        a, b = (self.of(v) for v in op.operands)
        n = None if b.number is None else b.number + 1
        if not _is_int(op.result) or n is None or n <= 0 or n & (n - 1):
            return self._opaque(op)
        return a.plus(floor_divided(a, n), -n)

    def rest(self, op: Op) -> Form:
        """Of a division that rounds towards 0: of a negative number it is not positive."""
        a, b = (self.of(v) for v in op.operands)
        if b.number == 1:
            return Form()
        known = _is_int(op.result) and b.number is not None and b.number > 0
        return of_term(Term("mod", (a, b))) if known else self._opaque(op)

    def div(self, op: Op) -> Form:
        """Rounded towards 0; of what is not negative, the same as rounding down."""
        dividend, by = (self.of(v) for v in op.operands)
        lengths = all(t.kind == "shape" and f > 0 for t, f in dividend.terms) and dividend.constant >= 0
        if lengths:
            return self.floordiv(op)
        known = _is_int(op.result) and by.number is not None and by.number > 0
        return of_term(Term("div", (dividend, by))) if known else self._opaque(op)

    def extreme(self, op: Op) -> Form:
        a, b = (self.of(v) for v in op.operands)
        if a == b:
            return a
        return of_term(Term(op.NAME, tuple(sorted((a, b), key=simplest_first))))

    def cast(self, op: Op) -> Form:
        """Between signed integers nothing changes."""
        (source,) = op.operands
        kept = _is_int(source) and _is_int(op.result) and source.type.bits <= op.result.type.bits  # type: ignore[union-attr]
        return self.of(source) if kept else self._opaque(op)

    def same(self, op: Op) -> Form:
        return self.of(op.operands[0])

    def shape(self, op: Op) -> Form:
        return of_term(Term("shape", (self.of(op.operands[0]), op.attrs["dim"])))

    def block(self, op: Op) -> Form:
        return of_term(Term(op.NAME))

    def load(self, op: Op) -> Form:
        """An element of an array that the kernel does not write."""
        array = array_root(op.operands[0])
        if any(array is w or overlap(self.kernel, array, w) for w in map(array_root, self.written)):
            return of_term(Term("value", (op.result,)))
        return of_term(Term("load", tuple(self.of(v) for v in op.operands)))


def most(form: Form) -> int | None:
    """A number that a form does not exceed, where it adds up numbers, minima with numbers, and rests of divisions."""
    total = form.constant
    for term, factor in form.terms:
        numbers = [f.number for f in term.forms() if f.number is not None]
        divisor = rest_by(term)
        if factor > 0 and divisor is not None:
            total += factor * (divisor - 1)
        elif factor > 0 and term.kind == "min" and numbers:
            total += factor * min(numbers)
        else:
            return None
    return total


def rest_by(term: Term) -> int | None:
    """The positive number by which a term is the rest of a division."""
    by = term.parts[1].number if term.kind == "mod" and isinstance(term.parts[1], Form) else None
    return by if by is not None and by > 0 else None


def depth(op: Op) -> int:
    """How many loops stand around an op."""
    n, at = 0, op.parent
    while at is not None and at.parent is not None:
        n += isinstance(at.parent, For | While)
        at = at.parent.parent
    return n


def _within(value: Value, region: Region) -> bool:
    """Whether a value is made in a region, or one nested in it."""
    at = (
        value.owner
        if isinstance(value.owner, Region)
        else value.owner.parent
        if value.owner is not None
        else None
    )
    while at is not None and at is not region:
        at = at.parent.parent if at.parent is not None else None
    return at is region


def _is_int(value: Value) -> bool:
    return isinstance(value.type, DType) and value.type.kind == "i"


_RULES: dict[type[Op], Callable[[Forms, Op], Form]] = {
    S.Const: Forms.constant,
    S.Add: Forms.add,
    S.Sub: Forms.sub,
    S.Mul: Forms.mul,
    S.FloorDiv: Forms.floordiv,
    S.Mod: Forms.rest,
    S.Div: Forms.div,
    S.Shl: Forms.shift,
    S.Shr: Forms.shift,
    S.And: Forms.mask,
    S.Min: Forms.extreme,
    S.Max: Forms.extreme,
    Cast: Forms.cast,
    PairEnd: Forms.same,
    ArrayShape: Forms.shape,
    BlockIndex: Forms.block,
    BlockCount: Forms.block,
    ArrayLoad: Forms.load,
}
