"""The bodies of functions in the place of their calls."""

from __future__ import annotations

from tegula.ir import Kernel, Op, Region, Value
from tegula.ops.gradient import Call
from tegula.passes.simplify import simplify
from tegula.rewrite import clone_op, replace


def inline_calls(kernel: Kernel) -> None:
    """Rewrite the kernel in place: no `call` is left, and what several of them compute is computed once."""
    if any(isinstance(op, Call) for op in kernel.walk()):
        put_in_place(kernel.body)
        simplify(kernel)


def put_in_place(region: Region) -> None:
    """Rewrite the region in place: no `call` is left. Other ops stay."""
    kept: list[Op] = []
    mapping: dict[Value, Value] = {}
    for op in region.ops:
        op.operands = [mapping.get(v, v) for v in op.operands]
        for nested in op.regions:
            if not isinstance(op, Call):
                replace(nested, mapping)
                put_in_place(nested)
        if not isinstance(op, Call):
            kept.append(op)
            continue
        inner: dict[Value, Value] = dict(zip(op.regions[0].args, op.operands, strict=True))
        body = Region()
        for nested in op.regions[0].ops:
            body.append(clone_op(nested, inner))
        put_in_place(body)
        mapping.update(zip(op.results, body.terminator.operands, strict=True))
        for made in body.ops[:-1]:
            made.parent = region
            kept.append(made)
    region.ops = kept
