"""Blocks that work in pairs: why what is found of one block by itself holds for two that fetch tiles for each other.

Of a pair, both blocks arrive where a stage becomes free, and each may copy one half of a tile to both. In one block by
itself, which is what the rest of the checker sees, an arrival is one and a copy is whole. If both blocks do to each
other's barriers what they do to their own, equally often and in the same order, then whatever waits for something in
the pair has a counterpart that waits for the same in one block: a circle of waits, or two accesses without an order,
would be one there too. So three things are shown: all loops and conditions around what roles do to barriers are the
same in both blocks; both find the same answer to whether they copy the same tile; and where the answer is yes, it is
the same tile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tegula.check.forms import Form, Forms
from tegula.check.verdict import Unproved
from tegula.ir import Kernel, Op, Region, Value
from tegula.ops import scalar as S
from tegula.ops.control import For, If, While
from tegula.ops.schedule import MEETINGS, BulkLoad, MbarrierNew, PairEnd, PairOther

BY_BLOCK = ("block.index", "tid", "value")
"""Terms that may differ between blocks."""


def check_pairs(kernel: Kernel, forms: Forms, controls: Sequence[Op]) -> None:
    """Unproved unless both blocks of a pair share what they share in the same way. `controls`: the control flow around
    what roles do."""
    if not any(isinstance(op, MbarrierNew) and op.pair for op in kernel.walk()):
        return
    for op in controls:
        if any(isinstance(inner, MEETINGS) for inner in op.walk()) and not _goes_alike(forms, op):
            raise _doubt(op, "how often the two blocks of a pair do this may differ")
    for op in kernel.walk():
        if isinstance(op, BulkLoad) and op.pair:
            equal = list(_equations(op.rest[-1]))
            if not all(_twins(forms, a, b) for a, b in equal):
                raise _doubt(op, "the two blocks of a pair may differ in what they copy for each other")
            known = {a for a, _ in equal}
            if not all(_given(forms, v, known) for v in (op.array, *op.offset)):
                raise _doubt(op, "the two blocks of a pair may copy different tiles for each other")


def _doubt(op: Op, message: str) -> Unproved:
    return Unproved("pair", message, op.loc, "this is the compiler's own doing; please report it")


def _goes_alike(forms: Forms, op: Op) -> bool:
    if isinstance(op, While):
        return False
    if isinstance(op, If):
        return _alike(forms.of(op.condition))
    assert isinstance(op, For)
    start, stop, step = map(forms.of, op.operands[:3])
    if _alike(stop) and _alike(step) and _alike(start):
        return True
    walks = [t.kind for form in (start, step) for t, _ in form.terms] == ["block.index", "block.count"]
    # Neighbouring numbers up to an even end, in even steps.
    return (
        walks and start.constant == step.constant == 0 and _alike(stop) and isinstance(op.stop.owner, PairEnd)
    )


def _alike(form: Form) -> bool:
    """Whether a form is the same in all blocks of a launch."""
    return all(term.kind not in BY_BLOCK for term in form.all_terms())


def _equations(same: Value) -> Iterator[tuple[Value, Value]]:
    """What a condition says: all of these are equal. A condition that is more than that says that something is not
    itself."""
    op = same.owner
    if isinstance(op, S.And):
        for v in op.operands:
            yield from _equations(v)
    elif isinstance(op, S.Cmp) and op.pred == "eq":
        yield op.a, op.b
    elif not (isinstance(op, S.Const) and op.value is True):
        yield same, same


def _twins(forms: Forms, mine: Value, other: Value) -> bool:
    """Whether the other block has as its own what is `other` here, and the other way round."""
    a, b = mine.owner, other.owner
    if isinstance(b, PairOther):
        loop = a.parent if isinstance(a, Region) else None
        return b.number is mine and isinstance(loop, For) and mine is loop.index
    if mine is other:
        return _alike(forms.of(mine))
    if not (isinstance(a, Op) and isinstance(b, Op) and _computes(a)):
        return False
    if (type(a), a.attrs, len(a.operands)) != (type(b), b.attrs, len(b.operands)):
        return False
    return all(_twins(forms, x, y) for x, y in zip(a.operands, b.operands, strict=True))


def _given(forms: Forms, value: Value, known: set[Value]) -> bool:
    """Whether a value is the same in two blocks in which the known ones are."""
    if value in known or _alike(forms.of(value)):
        return True
    op = value.owner
    return isinstance(op, Op) and _computes(op) and all(_given(forms, v, known) for v in op.operands)


def _computes(op: Op) -> bool:
    """Whether an op has one result, which depends on its operands alone."""
    return op.PURE and len(op.results) == 1 and not (op.COOPERATIVE or op.VARYING or op.regions)
