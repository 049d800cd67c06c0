"""How many rounds of loops show all that they can do: stages and phases repeat after a number of rounds, and conditions
change their mind near a number, both of which stand in what they are computed from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import gcd, lcm, prod

from tegula.check.counters import addend, both_ways, grows
from tegula.check.forms import Form, Forms, of_term
from tegula.check.slices import Followed, numbers, sources
from tegula.check.verdict import Unproved
from tegula.dataclass import dataclass, field
from tegula.ir import Op, Region, Value
from tegula.ops import scalar as S
from tegula.ops.control import For, If, While

FARTHEST = 4096
"""Rounds."""
SIMPLE = "compute stages, phases and conditions by sums and by divisions by numbers from what counts rounds"
DIVISIONS = (S.FloorDiv, S.Div, S.Mod)
PERIODS = ("floordiv", "div", "mod")
TURNING = (*DIVISIONS, S.Shr, S.And, S.Or, S.Xor)
"""What makes numbers come again and again of one that grows."""


@dataclass(slots=True)
class Deciders:
    """The scalars of a kernel that decide about single rounds. `each`: what stages, phases and conditions are computed
    from; `bounds`: what bounds of loops are, where a stage or a phase is computed from the number of a round of a loop
    around them, and not from one that goes on from loop to loop."""

    each: set[Value] = field(default_factory=set[Value])
    bounds: set[Value] = field(default_factory=set[Value])


def deciders(followed: Followed) -> Deciders:
    asked = [v for op in followed.acting() for v in numbers(op)]
    for op in followed.controls:
        if not isinstance(op, For) and not followed.touches_only(op):
            asked += op.operands[:1] if isinstance(op, If) else op.regions[0].terminator.operands
    each = _closed(asked)
    inner = [
        op for op in followed.controls if isinstance(op, For) and not each.isdisjoint(_indices_around(op))
    ]
    return Deciders(each, _closed(v for op in inner for v in op.operands[:3]) - each)


def _indices_around(op: Op) -> Iterator[Value]:
    at = op.parent
    while at is not None and at.parent is not None:
        if isinstance(at.parent, For):
            yield at.args[0]
        at = at.parent.parent


def _closed(values: Iterable[Value]) -> set[Value]:
    """The values, and all that they are computed from; how often loops run aside."""
    found, queue = set[Value](), list(values)
    while queue:
        value = queue.pop()
        if value not in found:
            found.add(value)
            queue += sources(value, iterations=False)
    return found


def horizon(forms: Forms, found: Deciders, stages: Sequence[int]) -> int:
    """After how many rounds of a loop nothing new comes; 0 where all that loops do is done in twice as many as the
    barriers have stages. Unproved where that is too many, or not known."""
    few = 2 * max(stages) + 1
    periods, turns, slow = {2 * s for s in stages}, set[int](), set[int]()
    far: Op | None = None
    for value in sorted(found.each | found.bounds, key=_place):
        op = value.owner
        if not isinstance(op, Op):
            continue
        period = _period(forms, op, value in found.each)
        turn = _turn(forms, op)
        is_slow = turn > 1 and any(map(_counts_slowly, op.operands))
        if (period and not any(2 * s % period == 0 for s in stages)) or turn > few or is_slow:
            far = op
        if period:
            periods.add(period)
        (slow if is_slow else turns).add(turn)
    if far is None:
        return 0
    changing = [*(t for t in turns if t > few), *slow]
    rounds = lcm(*periods) * prod(t + 1 for t in changing) * (few + 1)
    if rounds > FARTHEST:
        raise Unproved(
            "far", "what this decides changes after more rounds than are unrolled", far.loc, SIMPLE
        )
    return rounds


def _place(value: Value) -> tuple[str, str]:
    op = value.owner
    return (str(op.loc) if isinstance(op, Op) else "", repr(value))


def _period(forms: Forms, op: Op, each: bool) -> int:
    """After how many rounds a division leaves the same over; 0 for what is no division of a number of rounds."""
    if isinstance(op, S.Mul) and each and all(changes(forms.of(v)) for v in op.operands):
        raise Unproved("far", "this is a product of two numbers that loops change", op.loc, SIMPLE)
    if isinstance(op, S.Shl) and changes(forms.of(op.operands[1])):
        raise Unproved("far", "this shifts by a number that loops change", op.loc, SIMPLE)
    by = _divisor(forms, op)
    if by is None:
        return 0
    dividend = forms.of(op.operands[0])
    if not by:
        if each and (changes(dividend) or changes(forms.of(op.operands[1]))):
            raise Unproved("far", "this divides what loops change by what is not known", op.loc, SIMPLE)
        return 0
    if not changes(dividend):
        return 0
    # A quotient of a quotient is one by the product.
    while True:
        inner = [t for t, _ in dividend.terms if t.kind in PERIODS and changes(of_term(t))]
        if len(inner) != 1 or inner[0].kind == "mod" or len(inner[0].parts) != 2:
            break
        above, below = inner[0].parts
        assert isinstance(above, Form) and isinstance(below, Form)
        if below.number is None:
            break
        by, dividend = by * below.number, above
    return by // gcd(by, *(f for t, f in dividend.terms if changes(of_term(t))))


def _divisor(forms: Forms, op: Op) -> int | None:
    """By what an op divides: 0 for what is no number; None for other ops."""
    if isinstance(op, DIVISIONS):
        n = forms.of(op.operands[1]).number
        return n if n is not None and n > 0 else 0
    if isinstance(op, S.Shr):
        n = forms.of(op.operands[1]).number
        return 1 << n if n is not None and 0 <= n < 31 else 0
    if isinstance(op, S.And | S.Or | S.Xor) and getattr(op.result.type, "kind", "") == "i":
        known = [n for n in (forms.of(v).number for v in op.operands) if n is not None]
        return 1 << max(known[0], 1).bit_length() if known else None
    return None


def _turn(forms: Forms, op: Op) -> int:
    """How many rounds pass until a comparison changes its mind."""
    if not isinstance(op, S.Cmp | S.Min | S.Max) or getattr(op.operands[0].type, "kind", "f") != "i":
        return 0
    difference = forms.of(op.operands[0]) - forms.of(op.operands[1])
    return abs(difference.constant) if changes(difference) else 0


def _counts_slowly(value: Value) -> bool:
    """Whether a value depends on a number that a loop carries and that stays in some rounds, again and again."""
    return any(
        isinstance(owner := v.owner, Region)
        and (carried := _carried(owner, v)) is not None
        and not _steps(carried, v)
        for v in _closed([value])
    )


def _carried(body: Region, argument: Value) -> Value | None:
    """What a loop gives an argument of its body for the next round; None for what it does not carry."""
    if not isinstance(body.parent, For | While):
        return None
    k = body.args.index(argument) - isinstance(body.parent, For)
    return body.parent.regions[-1].terminator.operands[k] if k >= 0 else None


def _steps(end: Value, start: Value) -> bool:
    """Whether each round makes a number greater or begins anew with a constant; all but a few, where the round's index
    alone decides; or whether that is left to the rounds of a loop in it, which has as many as it has."""
    owner = end.owner
    if isinstance(owner, For | While):
        k, body = owner.results.index(end), owner.regions[-1]
        return _steps(body.terminator.operands[k], body.args[k + isinstance(owner, For)])
    if isinstance(owner, If | S.Select):
        inner = [r.terminator.operands[owner.results.index(end)] for r in owner.regions] or owner.operands[1:]
        found = [_steps(value, start) for value in inner]
        return all(found) or (any(found) and _decides_once(owner.operands[0]))
    if isinstance(owner, S.Add) and any(
        addend(y) is not None and _steps(x, start) for x, y in both_ways(owner.operands)
    ):
        return True
    return isinstance(owner, S.Const) or grows(end, start)


def _decides_once(condition: Value) -> bool:
    """Whether a condition compares the indices of loops, or what all rounds share: nothing that comes in turns, and no
    elements of arrays."""
    for value in _closed([condition]):
        owner = value.owner
        if isinstance(owner, Region) and _carried(owner, value) is not None:
            return False
        if isinstance(owner, Op) and (isinstance(owner, TURNING) or owner.regions or owner.effects()):
            return False
    return True


def changes(form: Form) -> bool:
    """Whether a form may differ from round to round."""
    return any(t.kind in ("index", "value") for t in form.all_terms())


def leaves(forms: Forms, found: Deciders) -> Iterator[tuple[Form, tuple[int, ...]]]:
    """What stages, phases and conditions depend on besides, and values of it that tell: values of the launch, quotients
    and rests of them, and what they are compared with."""
    for value in sorted(found.each, key=_place):
        op = value.owner
        if isinstance(op, S.Cmp | S.Min | S.Max) and getattr(op.operands[0].type, "kind", "f") == "i":
            difference = forms.of(op.operands[0]) - forms.of(op.operands[1])
            if not changes(difference) and any(True for _ in difference.leaves()):
                yield difference, (-1, 0, 1)
        for term, _ in forms.of(value).terms:
            form = of_term(term)
            if (term.leaf or term.kind in PERIODS) and not changes(form) and any(True for _ in form.leaves()):
                yield form, (0, 1, 2)
