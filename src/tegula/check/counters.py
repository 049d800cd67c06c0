"""Numbers that loops carry and make greater in each round."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.check.forms import Form, Forms, constant
from tegula.dataclass import dataclass
from tegula.ir import Op, Region, Value
from tegula.ops import scalar as S
from tegula.ops.control import For, If, While


@dataclass(frozen=True, slots=True)
class Rounds:
    """A loop that counts: its index goes from `start` by `step`, as long as it is less than `stop`. `body`: what it
    runs in each round."""

    body: Region
    index: Form
    start: Form
    stop: Form
    step: Form

    @property
    def span(self) -> Form:
        return self.stop - self.start


def counted(forms: Forms, loop: Op) -> Rounds | None:
    """How a loop counts; None for one with another condition."""
    if isinstance(loop, For):
        start, stop, step = (forms.of(v) for v in loop.operands[:3])
        (body,) = loop.regions
        return Rounds(body, forms.of(body.args[0]), start, stop, step)
    test, body = loop.regions
    leaving = leaves_at_the_top(loop)
    if leaving is not None:
        condition, rest, where = leaving.operands[0].owner, leaving.regions[1], body
    else:
        condition, rest, where = test.terminator.operands[0].owner, body, test
    if not isinstance(condition, S.Cmp):
        return None
    pred = OPPOSITE[condition.attrs["pred"]] if leaving is not None else condition.attrs["pred"]
    for (counter, limit), said in zip(both_ways(condition.operands), (pred, TURNED[pred]), strict=True):
        if said not in ("lt", "le") or counter not in where.args or _changes(limit, loop):
            continue
        k = where.args.index(counter)
        end = rest.terminator.operands[k].owner
        if not isinstance(end, S.Add) or end.operands[0] is not body.args[k]:
            continue
        step = forms.of(end.operands[1])
        if step.number is None or step.number <= 0:
            continue
        stop = forms.of(limit) + constant(said == "le")
        return Rounds(rest, forms.of(body.args[k]), forms.of(loop.operands[k]), stop, step)
    return None


def _changes(value: Value, loop: Op) -> bool:
    """Whether a value may differ from round to round of a loop."""
    owner = value.owner
    if isinstance(owner, Region):
        at: Op | None = owner.parent
        while at is not None and at is not loop:
            at = at.parent.parent if at.parent is not None else None
        return at is loop
    return isinstance(owner, Op) and (bool(owner.regions) or any(_changes(v, loop) for v in owner.operands))


def leaves_at_the_top(loop: Op) -> Op | None:
    """The `if` of `while True: if ...: break`, whose other branch is all of the round."""
    test, body = loop.regions
    asked = test.terminator.operands[0].owner
    if not isinstance(asked, S.Not) or asked.operands[0] not in test.args:
        return None
    k = test.args.index(asked.operands[0])
    start, end = loop.operands[k].owner, body.terminator.operands[k].owner
    if not (
        isinstance(start, S.Const) and not start.attrs["value"] and isinstance(end, If) and end.parent is body
    ):
        return None
    place = end.results.index(body.terminator.operands[k])
    yes, no = (r.terminator.operands[place].owner for r in end.regions)
    left = (
        isinstance(yes, S.Const) and yes.attrs["value"] and isinstance(no, S.Const) and not no.attrs["value"]
    )
    whole = list(body.terminator.operands) == list(end.results)
    return end if left and whole else None


OPPOSITE = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}


def settles(branch: Op, few: int) -> bool | None:
    """Which way a branch goes, but for a few times: its condition compares a number with one that grows in each round
    of the loop that the branch stands in. None for other conditions."""
    compared, at = branch.operands[0].owner, branch.parent
    if not isinstance(compared, S.Cmp) or at is None or not isinstance(at.parent, For | While):
        return None
    pred = compared.attrs["pred"]
    for (counter, limit), said in zip(both_ways(compared.operands), (pred, TURNED[pred]), strict=True):
        number = limit.owner.attrs["value"] if isinstance(limit.owner, S.Const) else None
        start = _starts(counter, at) if isinstance(number, int) else None
        if start is not None and isinstance(number, int) and number - start <= few:
            return said in ("gt", "ge", "ne")
    return None


TURNED = {"eq": "eq", "ne": "ne", "lt": "gt", "ge": "le", "gt": "lt", "le": "ge"}


def both_ways(pair: Sequence[Value]) -> list[tuple[Value, Value]]:
    a, b = pair
    return [(a, b), (b, a)]


def _starts(counter: Value, body: Region, strictly: bool = True) -> int | None:
    """The number that a counter starts from which each round of a loop makes greater (if not `strictly`: does not make
    less), and no loop around makes less; None where it is no such counter."""
    loop = body.parent
    if counter.owner is not body or loop is None:
        return None
    k = body.args.index(counter) - isinstance(loop, For)
    if k < 0 or not grows(body.terminator.operands[k], counter, strictly):
        return None
    start = loop.operands[k + (3 if isinstance(loop, For) else 0)]
    if isinstance(start.owner, S.Const):
        value = start.owner.attrs["value"]
        return value if isinstance(value, int) else None
    outer = start.owner
    if not isinstance(outer, Region) or not isinstance(outer.parent, For | While):
        return None
    return _starts(start, outer, False)


def grows(end: Value, start: Value, strictly: bool = True) -> bool:
    """Whether a value is greater than another one, or (not `strictly`) not less."""
    if end is start:
        return not strictly
    owner = end.owner
    if isinstance(owner, S.Add):
        return any(
            (more := addend(y)) is not None and grows(x, start, strictly and more == 0)
            for x, y in both_ways(owner.operands)
        )
    if isinstance(owner, If):
        k = owner.results.index(end)
        return all(grows(r.terminator.operands[k], start, strictly) for r in owner.regions)
    if isinstance(owner, For | While):
        k = owner.results.index(end)
        body = owner.regions[-1]
        argument = body.args[k + isinstance(owner, For)]
        before = owner.operands[k + (3 if isinstance(owner, For) else 0)]
        return grows(before, start, strictly) and grows(body.terminator.operands[k], argument, False)
    return False


def addend(value: Value) -> int | None:
    """By how much a constant makes sums greater; None for what may make them smaller."""
    known = value.owner.attrs["value"] if isinstance(value.owner, S.Const) else None
    return known if isinstance(known, int) and known >= 0 else None
