"""Cycles of carried numbers: a number that an iteration increments, or decrements, and that begins again at one end, as
the text of its loop computes it from constants."""

from __future__ import annotations

from typing import Any, NamedTuple

from tegula.check.evaluate import evaluator
from tegula.check.proof.program import Program
from tegula.check.proof.steps import constant
from tegula.ir import BranchLike, LoopLike, Op, Region, Value
from tegula.ops.control import branches

MAX_SIZE = 1024


class Cycle(NamedTuple):
    """The numbers low ... low + size - 1, in ascending or descending order, again and again. `in_each_iteration`: each
    iteration of the loop makes one step."""

    low: int
    size: int
    ascends: bool
    in_each_iteration: bool


def cycle(program: Program, v: Value) -> Cycle | None:
    """The cycle of a number that a loop carries; None for other numbers."""
    if v not in program.cache_of_cycles:
        program.cache_of_cycles[v] = _cycle(v)
    return program.cache_of_cycles[v]


def _cycle(v: Value) -> Cycle | None:
    loop = v.owner.parent if isinstance(v.owner, Region) else None
    if not isinstance(loop, LoopLike) or v not in loop.arguments:
        return None
    first, numbers = _first(loop.initial[loop.arguments.index(v)]), list[int]()
    argument, update = _update(v, loop.body.yielded[loop.arguments.index(v)])
    if first is None or update is None:
        return None
    x: Any = first
    while isinstance(x, int) and x not in numbers and len(numbers) <= MAX_SIZE:
        numbers.append(x)
        x = _evaluated(update, argument, x)
    low, size = min(numbers), len(numbers)
    steps = [b - a for a, b in zip(numbers, [*numbers[1:], first], strict=True)]
    is_closed = x == first and max(numbers) == low + size - 1
    for step in (1, -1) if is_closed else ():
        if steps.count(step) == size - 1 and (size > 2 or step > 0):
            yielded = loop.body.yielded[loop.arguments.index(v)]
            return Cycle(low, size, step > 0, update is yielded)
    return None


def _first(v: Value) -> int | None:
    """The constant with which the outermost loop that carries a number begins."""
    while (first := constant(v)) is None:
        source = _source(v)
        if source is not v and source is not None:
            v = source
        elif (
            isinstance(v.owner, Region)
            and isinstance(loop := v.owner.parent, LoopLike)
            and v in loop.arguments
        ):
            v = loop.initial[loop.arguments.index(v)]
        elif isinstance(v.owner, LoopLike):
            v = v.owner.initial[v.owner.results.index(v)]
        else:
            return None
    return first.value


def _source(v: Value) -> Value | None:
    """The carried number, an argument or a result of a loop, from which a number is computed with constants; None if
    there is no such number."""
    while isinstance(v.owner, Op) and not isinstance(v.owner, LoopLike):
        op = v.owner
        if isinstance(op, BranchLike):
            sources = [region.yielded[op.results.index(v)] for region in op.alternatives]
        else:
            sources = [x for x in op.operands if x.type == v.type]
        sources = [x for x in dict.fromkeys(sources) if constant(x) is None]
        if len(sources) != 1:
            return None
        (v,) = sources
    return v


def _update(argument: Value, yielded: Value) -> tuple[Value, Value | None]:
    """A carried number, and the next one that is computed from it in an iteration of the loop with an argument, without
    branches that leave the number as it is: in the innermost loop that carries it, or before that loop."""
    while yielded is not argument:
        op = yielded.owner
        if isinstance(op, LoopLike):
            k = op.results.index(yielded)
            if op.initial[k] is argument:
                argument, yielded = op.arguments[k], op.body.yielded[k]
            else:
                yielded = op.initial[k]
            continue
        if isinstance(op, BranchLike):
            sides = [region.yielded[op.results.index(yielded)] for region in op.alternatives]
            changed = [v for v in sides if v is not argument]
            if len(changed) == 1 and len(sides) == 2:
                yielded = changed[0]
                continue
        return _source(yielded) or argument, yielded
    return argument, None


def _evaluated(v: Value, argument: Value, x: int) -> Any:
    """The number of a value where an argument is x; None where other values or unknown ops are involved."""
    if v is argument:
        return x
    op = v.owner
    if not isinstance(op, Op):
        return None
    if isinstance(op, BranchLike):
        condition = _evaluated(op.condition, argument, x) if branches(op) else None
        if not isinstance(condition, bool):
            return None
        side = op.alternatives[0 if condition else 1]
        return _evaluated(side.yielded[op.results.index(v)], argument, x)
    operands = [_evaluated(y, argument, x) for y in op.operands]
    return None if None in operands or op.regions else evaluator(op)(*operands)
