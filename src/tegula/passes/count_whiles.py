"""Turns `while` loops that count into counted loops.

`while k < stop: ...; k += 64` runs as `for k in range(k, stop, 64)`: the trip count is then known on entry, so that
passes for counted loops, such as roles and gradients, apply. A loop counts if its condition compares one carried
integer with a value that the loop does not change, and if each iteration adds a constant to this integer."""

from __future__ import annotations

from tegula.dataclass import dataclass
from tegula.ir import AdditionLike, ComparisonLike, Kernel, Op, Value
from tegula.ir.rewrite import insert_before, replace, uses
from tegula.ops.control import For, While, conditional
from tegula.ops.scalar import Const
from tegula.passes.runner import Compilation
from tegula.types import int32, int64

SWAPPED = {"lt": "gt", "gt": "lt"}
"""The comparisons of an integer with the end of its range, each with the equivalent comparison of exchanged
operands."""


@dataclass(frozen=True, slots=True)
class _Count:
    """A `while` loop that counts. `position`: the position of the integer among the carried values; `stop`: the end of
    its range, which the ops `bound_ops` of the condition compute."""

    loop: While
    position: int
    stop: Value
    step: int
    bound_ops: list[Op]


def count_whiles(kernel: Kernel, context: Compilation) -> None:
    """Rewrite the kernel in place."""
    for loop in [op for op in kernel.walk() if conditional(op)]:
        count = _count(loop)
        if count is not None:
            _rewrite(kernel, count)


def _count(loop: While) -> _Count | None:
    condition = loop.condition
    (result,) = condition.yielded
    test, (header_arguments, body_arguments) = result.owner, loop.entries
    if not isinstance(test, ComparisonLike) or test.parent is not condition or test.pred not in SWAPPED:
        return None
    pred, value, stop = test.pred, test.a, test.b
    if value not in header_arguments:
        pred, value, stop = SWAPPED[pred], stop, value
    if value not in header_arguments or stop in header_arguments:
        return None
    bound_ops = [op for op in condition.ops[:-1] if op is not test]
    if any(not _is_invariant(op) or any(v in header_arguments for v in op.operands) for op in bound_ops):
        return None
    position = header_arguments.index(value)
    after = loop.body.yielded[position].owner
    if (
        value.type not in (int32, int64)
        or not isinstance(after, AdditionLike)
        or after.parent is not loop.body
    ):
        return None
    step = after.added_to(body_arguments[position]) or 0
    up, down = step > 0 and pred == "lt", step < 0 and pred == "gt"
    return _Count(loop, position, stop, step, bound_ops) if up or down else None


def _is_invariant(op: Op) -> bool:
    return op.PURE and not op.regions and not [*op.effects()]


def _rewrite(kernel: Kernel, count: _Count) -> None:
    """Replace the loop. If the integer is used after the loop, the counted loop carries it as before, besides its
    index."""
    loop, body, start = count.loop, count.loop.body, count.loop.initial[count.position]
    insert_before(loop, count.bound_ops)
    step = Const.typed([], {"type": start.type, "value": count.step}, loc=loop.loc)
    _, body_arguments = loop.entries
    integer = body_arguments[count.position]
    if loop.results[count.position] not in uses(kernel.body):
        loop.erase([count.position])
    index = body.add_argument(start.type, integer.name, at=0)
    for op in body.walk():
        op.substitute({integer: index})
    bounds = start, count.stop, step.result
    counted = For([*bounds, *loop.initial], [v.type for v in loop.results], loop.attrs, [body], loop.loc)
    insert_before(loop, [step, counted])
    for old, new in zip(loop.results, counted.results, strict=True):
        new.name = old.name
    assert loop.parent is not None
    loop.parent.ops.remove(loop)
    replace(kernel.body, dict(zip(loop.results, counted.results, strict=True)))
