"""Every op and each operand that can have a gradient is checked, or is known to have none.

The registry determines the ops to check: a new op fails here until a kernel of `op_kernels.py` propagates gradients
through the op, or a list below gives the reason why the op has no gradient."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from op_kernels import CASES, D

import tegula as tg
from support.elementwise_gradients import (
    ELEMENTWISE,
    NO_OPERANDS,
    NUMBERS,
    binary_kernel,
    differentiable_points,
    ternary_kernel,
    unary_kernel,
)
from support.ops_without_adjoint import LOWERED_PREFIXES, OPS_WITHOUT_ADJOINT
from tegula.ir import REGISTRY, Op
from tegula.ops.base import Elementwise
from tegula.ops.gradient import has_adjoint
from tegula.runtime.adjoint import Adjoint
from tegula.runtime.launch import plan
from tegula.runtime.resolve import requested_specialisation
from tegula.types import ArrayType, BufType

OperandPosition = tuple[str, int]
"""An op and the position of an operand; positions from VARIADIC_POSITION on are one position, for variadic operands."""
VARIADIC_POSITION = 3

ZERO = {
    *(("floor", 0), ("ceil", 0), ("trunc", 0), ("rint", 0), ("floordiv", 0), ("floordiv", 1)),
    ("copysign", 1),
}
"""Operands whose derivative is 0 wherever it exists."""
CONSTANT = {("tile.arange", 0), ("tile.arange", 1)}
"""Operands that are constants in every kernel."""
TESTED_BY_OTHER_FILES = {
    ("fast.exp2", 0): "test_library.py::test_derivatives_of_fast_functions_are_correct",
    ("cast", 0): "test_casts_round_values_not_gradients",
    ("tile.load", 1): "test_refusals.py: fill=",
    ("array.gather", 1): "test_refusals.py: other=",
}
"""Ops that other tests check."""
REFUSED = {
    "array.cas": "test_refusals.py: atomic_cas",
    "array.scatter_cas": "test_refusals.py: tile_atomic_cas",
    "lane.fence": "gpu_codegen/test_fences.py",
    "bitcast": "test_refusals.py: bitcast",
    "stack.push": "test_refusals.py: stacks",
    "stack.pop": "test_refusals.py: stacks",
    "buf.exchange": "occurs only in adjoint kernels",
}
"""Ops that declare that they have no derivative, and the tests that check this."""
HANDWRITTEN = "the operation is part of a hand-written schedule"
"""The reason for ops of handwritten schedules, which tests/roles/test_handwritten_schedules.py tests."""


def differentiated_operands() -> Iterator[tuple[Op, list[Any]]]:
    """The ops whose adjoints were built for the gradients of all cases, with a flag for each operand that got a
    gradient."""
    ops: list[tuple[Op, list[Any]]] = []

    def recording(adjoint: Any) -> Any:
        def run(self: Op, b: Any, *grads: Any) -> Any:
            operand_gradients = list(adjoint(self, b, *grads))
            has_gradient = [
                b.needs_adjoint(v)
                and (
                    gradient is not None
                    or isinstance(v.type, ArrayType | BufType)
                    or self.NAME == "tile.extract"
                )
                for v, gradient in zip(self.operands, operand_gradients, strict=True)
            ]
            ops.append((self, has_gradient))
            return operand_gradients

        return run

    with pytest.MonkeyPatch.context() as patch:
        for op in {op for op in REGISTRY.values() if "adjoint" in vars(op)}:
            patch.setattr(op, "adjoint", recording(op.adjoint))
        for case in CASES.values():
            inputs, output = case.arguments()
            args = [*inputs, output]
            adjoint = Adjoint(case.kernel, tuple(range(len(args))))
            adjoint.steps_for(
                requested_specialisation(
                    adjoint, plan(case.dims, case.block), (*args, *(a.grad for a in args))
                )
            )
    return iter(ops)


def position_of(op: Op, k: int) -> OperandPosition:
    return op.NAME, min(k, VARIADIC_POSITION)


@pytest.mark.slow
def test_every_differentiable_operand_is_covered_by_a_case() -> None:
    required: set[OperandPosition] = {
        (name, k)
        for name, op in REGISTRY.items()
        if issubclass(op, Elementwise) and "f" in op.KINDS and op.adjoint is not Op.adjoint
        for k in range(len(op.signature.operands))
    }
    checked: set[OperandPosition] = set()
    for op, has_gradient in differentiated_operands():
        for k, v in enumerate(op.operands):
            if has_adjoint(v.type) and k in range(len(op.operands))[: op.signature.first_index]:
                required.add(position_of(op, k))
            if has_gradient[k]:
                checked.add(position_of(op, k))
    exempt = ZERO | CONSTANT | set(TESTED_BY_OTHER_FILES)
    assert sorted(required - checked - exempt) == []
    assert sorted(exempt & checked) == [], "remove these operands from the lists"
    adjoints = {name for name, op in REGISTRY.items() if op.adjoint is not Op.adjoint}
    assert sorted(adjoints - {name for name, _ in checked | exempt} - NO_OPERANDS) == []


def test_ops_without_a_derivative_are_refused() -> None:
    refused = {name for name, op in REGISTRY.items() if op.NONDIFFERENTIABLE}
    handwritten = {name for name in refused if REGISTRY[name].NONDIFFERENTIABLE == HANDWRITTEN}
    assert refused - handwritten == set(REFUSED)
    assert all(name.startswith(("mbarrier.", "named.", "bulk.", "fence.", "launch.")) for name in handwritten)
    ops_without_adjoint = {name for name, op in REGISTRY.items() if op.adjoint is Op.adjoint} - refused
    assert (
        sorted(
            name
            for name in ops_without_adjoint - OPS_WITHOUT_ADJOINT
            if not name.startswith(LOWERED_PREFIXES)
        )
        == []
    )


@pytest.mark.machine_code
@pytest.mark.parametrize("narrow", [tg.float32, tg.float16, tg.bfloat16])
def test_casts_round_values_not_gradients(narrow: Any) -> None:
    @tg.kernel
    def rounded(a: tg.array[D], y: tg.array[D]):
        i = tg.tid()
        t = tg.tile_load(a, shape=4)
        u = tg.tile_astype(tg.tile_astype(t, narrow), D)
        y[i] = D(narrow(a[i])) * 3.0 + tg.tile_sum(u)[0]

    a = tg.array([0.1, -2.3, 1.7, 3.3], dtype=D, requires_grad=True)
    y = tg.zeros(4, dtype=D, requires_grad=True)
    tg.launch(rounded, 4, [a], [y], adj_outputs=[tg.array([1.0, 2.0, 4.0, -8.0], dtype=D)], adjoint=True)
    assert a.grad.numpy().tolist() == [3.0 - 1.0, 6.0 - 1.0, 12.0 - 1.0, -24.0 - 1.0]


# Points ---------------------------------------------------------------------------------------------------------------

AT_KINKS: dict[str, dict[tuple[float, ...], tuple[float, ...]]] = {
    "abs": {(0.0,): (0.0,)},
    "min": {(x, x): (0.5, 0.5) for x in NUMBERS},
    "max": {(x, x): (0.5, 0.5) for x in NUMBERS},
    "copysign": {(0.0, x): (0.0, 0.0) for x in NUMBERS},
}
"""The derivatives that docs/gradients.md defines where a function has no derivative."""


def expected_derivatives(op: type[Elementwise], name: str, point: tuple[float, ...]) -> tuple[float, ...]:
    """The derivatives of the reference: extrapolated from differences with two step sizes, or at a kink as
    docs/gradients.md defines."""
    if (name, 0) in ZERO:
        return (0.0,) * len(point)
    if point in AT_KINKS.get(name, {}):
        return AT_KINKS[name][point]
    out = []
    for k in range(len(point)):

        def value(step: float, k: int = k) -> float:
            return float(op.ref({}, *(np.array([x + step * (n == k)]) for n, x in enumerate(point)))[0])

        first, second = ((value(h) - value(-h)) / (2 * h) for h in (2e-3, 1e-3))
        out.append((4 * second - first) / 3)
    return tuple(out)


@pytest.mark.machine_code
@pytest.mark.parametrize("form", ["threads", "tiles"])
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_derivatives_at_negative_tied_and_zero_points(name: str, form: str) -> None:
    op, f = ELEMENTWISE[name], getattr(tg, name)
    points = differentiable_points(name)
    args = [tg.array(column, dtype=D, requires_grad=True) for column in zip(*points, strict=True)]
    y = tg.zeros(len(points), dtype=D, requires_grad=True)
    n = len(points)
    if form == "threads":
        kernel = (unary_kernel, binary_kernel, ternary_kernel)[len(op.signature.operands) - 1](f)
        dims: Any = n
    else:
        kernel = (unary_tile_kernel, binary_tile_kernel, ternary_tile_kernel)[len(op.signature.operands) - 1](
            f, n
        )
        dims = (1, 32)
    tg.launch(kernel, dims, args, [y], adj_outputs=[tg.ones(n, dtype=D)], adjoint=True, block_dim=32)
    actual = np.stack([a.grad.numpy() for a in args], axis=1)
    expected = np.array([expected_derivatives(op, name, point) for point in points])
    np.testing.assert_allclose(actual, expected, rtol=1e-7, atol=1e-8, err_msg=str(points))


def unary_tile_kernel(f: Any, n: int) -> Any:
    @tg.kernel
    def kernel(a: tg.array[D], y: tg.array[D]):
        tg.tile_store(y, f(tg.tile_load(a, shape=n)))

    return kernel


def binary_tile_kernel(f: Any, n: int) -> Any:
    @tg.kernel
    def kernel(a: tg.array[D], b: tg.array[D], y: tg.array[D]):
        tg.tile_store(y, f(tg.tile_load(a, shape=n), tg.tile_load(b, shape=n)))

    return kernel


def ternary_tile_kernel(f: Any, n: int) -> Any:
    @tg.kernel
    def kernel(a: tg.array[D], b: tg.array[D], c: tg.array[D], y: tg.array[D]):
        tg.tile_store(y, f(tg.tile_load(a, shape=n), tg.tile_load(b, shape=n), tg.tile_load(c, shape=n)))

    return kernel
