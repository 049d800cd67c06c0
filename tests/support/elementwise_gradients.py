"""Scalar functions, and kernels that apply them, for tests of gradients."""

from __future__ import annotations

import itertools
from typing import Any

from op_kernels import D

import tegula as tg
from tegula.ir import REGISTRY, Op
from tegula.ops.base import Elementwise

NO_OPERANDS = {"structure.value", "structure.prefetch", "const"}
"""Ops that end the flow of gradients: their results have gradients, but they have no operands with gradients."""


NUMBERS = (-2.5, -1.0, -0.5, 0.0, 0.5, 1.0, 2.5)


UNDEFINED: dict[str, Any] = {
    "sqrt": lambda x: x <= 0.0,
    "div": lambda x, y: y == 0.0,
    "floordiv": lambda x, y: y == 0.0,
    "copysign": lambda x, y: y == 0.0,
}
"""Predicates for points at which an op or its derivative has no finite value."""


ELEMENTWISE = {
    name: op
    for name, op in REGISTRY.items()
    if issubclass(op, Elementwise)
    and "f" in op.KINDS
    and op.adjoint is not Op.adjoint
    and name != "fast.exp2"
}


def differentiable_points(name: str) -> list[tuple[float, ...]]:
    """Points at which an op has a derivative."""
    undefined = UNDEFINED.get(name, lambda *_: False)
    arity = len(ELEMENTWISE[name].signature.operands)
    return [point for point in itertools.product(NUMBERS, repeat=arity) if not undefined(*point)]


def unary_kernel(f: Any) -> Any:
    @tg.kernel
    def kernel(a: tg.array[D], y: tg.array[D]):
        i = tg.tid()
        y[i] = f(a[i])

    return kernel


def binary_kernel(f: Any) -> Any:
    @tg.kernel
    def kernel(a: tg.array[D], b: tg.array[D], y: tg.array[D]):
        i = tg.tid()
        y[i] = f(a[i], b[i])

    return kernel


def ternary_kernel(f: Any) -> Any:
    @tg.kernel
    def kernel(a: tg.array[D], b: tg.array[D], c: tg.array[D], y: tg.array[D]):
        i = tg.tid()
        y[i] = f(a[i], b[i], c[i])

    return kernel
