"""Inlines calls of functions."""

from __future__ import annotations

from collections.abc import Callable

from tegula.ir import Kernel, Op, Region, Value
from tegula.ops.gradient import Call
from tegula.passes.runner import Compilation
from tegula.passes.simplify import simplify


def inline_calls(kernel: Kernel, context: Compilation) -> None:
    """Rewrite the kernel in place: calls are replaced by their bodies, and common subexpressions are computed once."""
    if any(isinstance(op, Call) for op in kernel.walk()):
        inline_selected(kernel.body)
        simplify(kernel, context)


def _all(call: Call) -> bool:
    return True


def inline_selected(region: Region, is_selected: Callable[[Call], bool] = _all) -> None:
    """Rewrite the region in place: calls that satisfy `is_selected` are replaced by their bodies."""
    _inline(region, is_selected, {})


def _inline(region: Region, is_selected: Callable[[Call], bool], mapping: dict[Value, Value]) -> None:
    """Move the bodies of calls to the place of the calls. `mapping`: the arguments of the calls around the region, by
    parameter, and the results of earlier calls."""
    out: list[Op] = []
    for op in region.ops:
        op.substitute(mapping)
        if not isinstance(op, Call):
            for nested in op.regions:
                _inline(nested, is_selected, mapping)
        if not isinstance(op, Call) or not is_selected(op):
            out.append(op)
            continue
        function = op.function
        mapping.update(zip(function.args, op.arguments, strict=True))
        _inline(function, is_selected, mapping)
        mapping.update(zip(op.results, function.yielded, strict=True))
        for inlined in function.ops[:-1]:
            inlined.parent = region
            out.append(inlined)
    region.ops = out
