"""The iteration spaces of counted loops: bounds, and the items of enumerate and zip."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tegula import errors as E
from tegula.dataclass import dataclass, field
from tegula.ir import Value
from tegula.lang.capture import Builtin
from tegula.lang.state import Binding, describe_type
from tegula.ops.base import element
from tegula.types import DType, int32, int64, scalar_of

if TYPE_CHECKING:
    from tegula.lang.loops import Loops

ITERATORS = (Builtin("enumerate"), Builtin("zip"))
RANGE_FUNCTIONS = tuple(map(Builtin, ("range", "pipelined", "unrolled", "_rolled", "persistent_tiles")))


@dataclass(slots=True)
class Bounds:
    """The bounds of a counted loop. `item`: the function from the counter to the binding of the loop's target.
    `options`: attributes of the loop's schedule; `joined`: whether the loop counts the items of several ranges."""

    start: Value
    stop: Value
    step: Value
    numbers: range | None
    stages: int = 1
    item: Callable[[Any], Binding] = lambda index: index
    options: dict[str, bool] = field(default_factory=dict)
    joined: bool = False


Items = tuple[Any, ...]


def joined_items(tracer: Loops, call: ast.Call) -> Bounds | Items:
    """The items of a call of enumerate or zip: the numbers of a range, or items known at compile time."""
    function = tracer.expr(call.func)
    return _enumerated(tracer, call) if function == Builtin("enumerate") else _zipped(tracer, call)


def _items(tracer: Loops, node: ast.expr) -> Bounds | Items:
    """The items of an argument of enumerate or zip."""
    function = tracer.expr(node.func) if isinstance(node, ast.Call) else None
    if isinstance(node, ast.Call) and function in ITERATORS:
        return joined_items(tracer, node)
    if isinstance(node, ast.Call) and isinstance(function, Builtin) and function in RANGE_FUNCTIONS[:2]:
        return tracer.bounds_of(node, function.name)
    items = tracer.items(tracer.expr(node))
    if not isinstance(items, tuple):
        help = "loop over range(...), a tuple, or a vector or matrix"
        raise E.TypeMismatch(
            tracer.location(node), help=help, what=f"cannot loop over {describe_type(items)}"
        )
    return items


def _enumerated(tracer: Loops, call: ast.Call) -> Bounds | Items:
    """enumerate(items, start=0)."""
    keyword_start = [k.value for k in call.keywords if k.arg == "start"]
    positional = list(call.args)
    start = [*positional[1:], *keyword_start]
    if not positional or len(start) > 1 or len(keyword_start) < len(call.keywords):
        message = "enumerate takes an iterable, and start="
        raise E.WrongArguments(tracer.location(call), what=message)
    (first,) = map(tracer.expr, start) if start else (0,)
    b, iterated = tracer.builder, _items(tracer, positional[0])
    if not isinstance(iterated, Bounds):
        numbers = (
            first + k if isinstance(first, int) else b.binary("add", first, k) for k in range(len(iterated))
        )
        return tuple(zip(numbers, iterated, strict=True))
    inner = iterated.item

    def item(index: Any) -> Binding:
        if isinstance(index, int):
            assert iterated.numbers is not None
            count: Any = iterated.numbers.index(index)
        else:
            offset = b.binary("sub", index, iterated.start)
            count = (
                offset
                if tracer.constant_number(iterated.step) == 1
                else b.binary("floordiv", offset, iterated.step)
            )
            count = b.cast(count, int32) if iterated.joined else count
        return (b.binary("add", count, first), inner(index))

    iterated.item = item
    return iterated


def _zipped(tracer: Loops, call: ast.Call) -> Bounds | Items:
    """zip(items, ...), as long as the shortest of them."""
    if not call.args or call.keywords:
        raise E.WrongArguments(tracer.location(call), what="zip takes one or more iterables")
    parts = [_items(tracer, a) for a in call.args]
    static_items = [_static_items(x) for x in parts]
    if all(x is not None for x in static_items) and not all(isinstance(x, Bounds) for x in parts):
        return tuple(zip(*(x for x in static_items if x is not None), strict=False))
    ranges = [x for x in parts if isinstance(x, Bounds)]
    if len(ranges) < len(parts):
        message = "the number of items of a range next to a tuple in zip"
        raise E.NotConstant(tracer.location(call), what=message)
    return _zipped_ranges(tracer, ranges, call)


def _static_items(x: Bounds | Items) -> Sequence[Any] | None:
    """The items, if they are known at compile time."""
    if not isinstance(x, Bounds):
        return x
    return None if x.numbers is None else [x.item(n) for n in x.numbers]


def _zipped_ranges(tracer: Loops, ranges: Sequence[Bounds], call: ast.Call) -> Bounds:
    """One loop over several ranges, which counts the iterations."""
    b = tracer.builder
    lengths = [_length(tracer, bounds, call) for bounds in ranges]
    shortest = lengths[0]
    for n in lengths[1:]:
        are_static = isinstance(shortest, int) and isinstance(n, int)
        shortest = min(shortest, n) if are_static else tracer.public_call("min", [shortest, n], {}, call)
    stop = b.value(shortest, int64)
    numbers = range(shortest) if isinstance(shortest, int) else None

    def item(index: Any) -> Binding:
        return tuple(bounds.item(_at(tracer, bounds, index)) for bounds in ranges)

    return Bounds(b.const(0, int64), stop, b.const(1, int64), numbers, item=item, joined=True)


def counted(tracer: Loops, bounds: Bounds, call: ast.Call) -> Bounds:
    """A range as a loop that counts its iterations from 0, so that GPUs can prefetch for later iterations."""
    b, t = tracer.builder, element(bounds.start.type)
    length = _length(tracer, bounds, call)
    assert isinstance(t, DType)
    stop = b.const(length, t) if isinstance(length, int) else b.value(b.cast(length, t))
    numbers = range(length) if isinstance(length, int) else None

    def item(index: Any) -> Binding:
        return bounds.item(_at(tracer, bounds, index))

    return Bounds(b.const(0, t), stop, b.const(1, t), numbers, bounds.stages, item, bounds.options)


def _at(tracer: Loops, bounds: Bounds, index: Any) -> Any:
    """The element of a range at an index."""
    if isinstance(index, int):
        assert bounds.numbers is not None
        return bounds.numbers[index]
    b, t = tracer.builder, element(bounds.start.type)
    assert isinstance(t, DType)
    return b.binary("add", bounds.start, b.binary("mul", b.cast(index, t), bounds.step))


def _length(tracer: Loops, bounds: Bounds, call: ast.Call) -> Any:
    """The number of items of a range, an int if it is known."""
    if bounds.numbers is not None:
        return len(bounds.numbers)
    b, step = tracer.builder, tracer.constant_number(bounds.step)
    if step is None:
        raise E.NotConstant(tracer.location(call), what="the step of this range")
    if scalar_of(element(bounds.start.type)).kind == "u":
        help = "cast the bounds: int(n)"
        raise E.TypeMismatch(tracer.location(call), help=help, what="a range of unsigned integers here")
    start, stop = (b.cast(x, int64) for x in (bounds.start, bounds.stop))
    span = b.binary("sub", stop, start) if step > 0 else b.binary("sub", start, stop)
    count = b.binary("floordiv", b.binary("add", span, abs(step) - 1), abs(step))
    return tracer.public_call("max", [count, 0], {}, call)
