"""Inlines calls of functions."""

from __future__ import annotations

from collections.abc import Callable

from tegula.ir import Kernel, Op, Region, Value
from tegula.ir.rewrite import clone_op, replace
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
    out: list[Op] = []
    mapping: dict[Value, Value] = {}
    for op in region.ops:
        op.substitute(mapping)
        for nested in op.regions:
            if not isinstance(op, Call):
                replace(nested, mapping)
                inline_selected(nested, is_selected)
        if not isinstance(op, Call) or not is_selected(op):
            out.append(op)
            continue
        inner: dict[Value, Value] = dict(zip(op.function.args, op.arguments, strict=True))
        body = Region()
        for nested in op.function.ops:
            body.append(clone_op(nested, inner))
        inline_selected(body, is_selected)
        mapping.update(zip(op.results, body.yielded, strict=True))
        for inlined in body.ops[:-1]:
            inlined.parent = region
            out.append(inlined)
    region.ops = out
