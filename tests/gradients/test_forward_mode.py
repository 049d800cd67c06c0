"""Adjoints against derivatives in forward mode, up to rounding: <w, J v> = <J^T w, v>."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from forward_mode import DISCRETE, FUNCTIONS, LINEAR, OPS, RULES, compare
from op_kernels import CASES, D

import tegula as tg
from support import elementwise_gradients as elementwise
from support import library_gradients, loop_kernels, role_kernels
from support.campaigns import sampled
from tegula.errors import InternalError
from tegula.ir import REGISTRY, Op
from tegula.kernels import gemm
from tegula.kernels.shapes import Tile
from tegula.ops.scalar import Sqrt
from tegula.runtime.library import library

COMPOSITE_FUNCTIONS = ("_binary_scale", "_eig3", "_floor", "_svd2", "_svd3", "closest_point_edge_edge")
"""Functions with several results, and powers of two by which geometry is scaled; tests/stdlib/test_small_matrices.py,
test_noise.py and tests/spatial/test_gradients.py compare their derivatives with differences."""
FLOAT64_TOLERANCE, FLOAT32_TOLERANCE = 1e-14, 1e-7
"""The tolerances of the identity in float64 and float32, relative to the sum of the magnitudes of its terms."""


def check(kernel: Any, dims: Any, args: Any, block_dim: int, tolerance: float = FLOAT64_TOLERANCE) -> None:
    sides = compare(kernel, dims, args, block_dim)
    assert sides.error <= tolerance, str(sides)
    assert sides.value_difference <= 1e3 * tolerance, "the values differ from the compiled kernel's"


def random(*shape: int, dtype: Any = D, low: float = -1.0, high: float = 1.0) -> Any:
    data = np.random.default_rng(shape).uniform(low, high, shape)
    return tg.array(data, dtype=dtype, requires_grad=True)


# Ops ------------------------------------------------------------------------------------------------------------------


def test_every_op_has_a_tangent() -> None:
    """All ops and library functions have a tangent rule; an op without a rule is an error, not a tangent of 0."""
    with_tangents = {*OPS, *LINEAR, *DISCRETE, *RULES}
    assert sorted(with_tangents - set(REGISTRY)) == []
    adjoints = {name for name, op in REGISTRY.items() if op.adjoint is not Op.adjoint}
    assert sorted(adjoints - with_tangents - elementwise.NO_OPERANDS) == []
    derivatives = {name[1:-8] for name in library() if name.startswith("_") and name.endswith("_adjoint")}
    assert sorted(derivatives ^ set(FUNCTIONS)) == sorted(COMPOSITE_FUNCTIONS)


@pytest.mark.machine_code
@sampled(3, "name", CASES)
def test_adjoints_of_ops_agree_with_tangents(name: str) -> None:
    """In these kernels gradients flow through every operand of every op; support/elementwise_gradients.py lists
    exceptions."""
    case = CASES[name]
    inputs, output = case.arguments()
    check(case.kernel, case.dims, [*inputs, output], case.block)


@pytest.mark.machine_code
@pytest.mark.parametrize("name", elementwise.ELEMENTWISE)
def test_adjoints_at_negative_tied_and_zero_points_agree_with_tangents(name: str) -> None:
    op = REGISTRY[name]
    points = elementwise.differentiable_points(name)
    args = [tg.array(column, dtype=D, requires_grad=True) for column in zip(*points, strict=True)]
    kernels_by_arity = (
        elementwise.unary_kernel,
        elementwise.binary_kernel,
        elementwise.ternary_kernel,
    )
    kernel = kernels_by_arity[len(args) - 1](getattr(tg, name))
    check(kernel, (len(points),), [*args, tg.zeros(len(points), dtype=D, requires_grad=True)], 32)


@pytest.mark.machine_code
@sampled(3, "name", [*library_gradients.UNARY_RANGES, *library_gradients.BINARY_RANGES])
def test_adjoints_of_library_functions_agree_with_tangents(name: str) -> None:
    ranges = library_gradients.BINARY_RANGES.get(name) or (library_gradients.UNARY_RANGES[name],)
    args = library_gradients.inputs(*ranges)
    kernel = (elementwise.unary_kernel, elementwise.binary_kernel)[len(args) - 1](getattr(tg, name))
    check(kernel, (16,), [*args, tg.zeros(16, dtype=D, requires_grad=True)], 32)


@pytest.mark.machine_code
def test_adjoints_of_fast_functions_agree_with_tangents() -> None:
    @tg.kernel
    def kernel(x: tg.array[float], y: tg.array[float]):
        i = tg.tid()
        y[i] = tg.fast.exp2(x[i])

    check(kernel, (16,), [random(16, dtype=float), random(16, dtype=float)], 32, FLOAT32_TOLERANCE * 10)


@pytest.mark.machine_code
def test_adjoints_of_casts_agree_with_tangents() -> None:
    """Values are rounded, and so are gradients to the type of each value; tangents are not rounded."""

    @tg.kernel
    def kernel(x: tg.array[D], z: tg.array[float], y: tg.array[D]):
        i = tg.tid()
        y[i] = D(float(x[i])) * D(z[i]) + tg.floor(x[i]) * x[i] + D(int(7.0))

    check(kernel, (16,), [random(16), random(16, dtype=float), random(16)], 32, FLOAT32_TOLERANCE)


@tg.func
def scale_and_add(x: D, v: tg.vec3d):
    return x * v, x + v[0]


@tg.func_grad(scale_and_add)
def scale_and_add_gradient(x: D, v: tg.vec3d, g: tg.vec3d, h: D):
    tg.adjoint[x] += 3.0 * tg.dot(g, v) * x + 2.0 * h
    tg.adjoint[v] += 3.0 * x * g + tg.vec3d(h, 0.0, h)


@pytest.mark.machine_code
def test_adjoints_of_functions_with_custom_gradients_agree_with_tangents() -> None:
    """The user's declaration determines the derivative, whatever the body computes."""

    @tg.kernel
    def kernel(x: tg.array[D], y: tg.array[D]):
        i = tg.tid()
        a, b = scale_and_add(x[i] * x[i], tg.vec3d(x[i], x[1], x[2]))
        y[i] = tg.dot(a, a) * b

    check(kernel, (8,), [random(8), random(8)], 8)


def test_an_op_without_a_tangent_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(OPS, "sqrt")
    with pytest.raises(InternalError, match="sqrt has no tangent"):
        test_adjoints_at_negative_tied_and_zero_points_agree_with_tangents("sqrt")


@pytest.mark.machine_code
def test_a_slightly_wrong_adjoint_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Sqrt.adjoint
    monkeypatch.setattr(
        Sqrt, "adjoint", lambda self, b, *grads: (b.scaled(*original(self, b, *grads), 1.0 + 1e-11),)
    )
    with pytest.raises(AssertionError, match="in reverse"):
        test_adjoints_at_negative_tied_and_zero_points_agree_with_tangents("sqrt")


# Kernels --------------------------------------------------------------------------------------------------------------

LOOPS: dict[str, tuple[Any, Any, Any, int]] = {
    "recurrent": (
        loop_kernels.recurrent,
        (1, 32),
        lambda n: [random(8, 8), random(8, 4), n, random(8, 4)],
        32,
    ),
    "trip_counts_in_while": (
        loop_kernels.trip_counts_in_while,
        (8,),
        lambda n: [random(2, 8), n, random(8)],
        4,
    ),
    "loop_until_small": (
        loop_kernels.loop_until_small,
        (2, 8),
        lambda n: [random(2, 4), min(n, 3), random(8)],
        8,
    ),
    "trip_counts_per_lane": (
        loop_kernels.trip_counts_per_lane,
        (16,),
        lambda n: [random(2, 16), n, random(16)],
        8,
    ),
    "trip_counts_shared_by_some_lanes": (
        loop_kernels.trip_counts_shared_by_some_lanes,
        (2, 8),
        lambda n: [random(2, 8), n, random(16)],
        8,
    ),
    "updates_in_place": (loop_kernels.updates_in_place, (8,), lambda n: [random(2, 8), n, random(8)], 8),
    "nested": (loop_kernels.nested, (1, 8), lambda n: [random(4, 8), n, random(4)], 8),
    **{
        kernel.name: (
            kernel,
            (2, 2, 32),
            lambda n: [random(16, 8 * n), random(8 * n, 8), random(16, 8)],
            32,
        )
        for kernel in (loop_kernels.reassigned, loop_kernels.pipelined)
    },
}


@pytest.mark.machine_code
@pytest.mark.parametrize("iterations", [0, 1, 2, 17])
@sampled(3, "name", LOOPS)
def test_adjoints_of_loops_branches_and_mutation_agree_with_tangents(name: str, iterations: int) -> None:
    kernel, dims, arguments, block = LOOPS[name]
    check(kernel, dims, arguments(iterations), block)


@tg.kernel
def softmax(a: tg.array2d[D], b: tg.array2d[D]):
    i = tg.tid()
    t = tg.tile_load(a[i], 24)
    e = tg.exp(t - tg.tile_max(t))
    tg.tile_store(b[i], e * (1.0 / tg.tile_sum(e)))


@tg.kernel
def layernorm(a: tg.array2d[D], weight: tg.array[D], bias: tg.array[D], b: tg.array2d[D]):
    i = tg.tid()
    t = tg.tile_load(a[i], 24)
    d = t - tg.tile_sum(t) / 24.0
    scale = 1.0 / tg.sqrt(tg.tile_sum(d * d) / 24.0 + 1e-3)
    tg.tile_store(b[i], d * scale * tg.tile_load(weight, 24) + tg.tile_load(bias, 24))


@tg.kernel
def attention(q: tg.array2d[D], k: tg.array2d[D], v: tg.array2d[D], out: tg.array2d[D], causal: bool):
    """A block computes eight queries, with tiles of eight keys; the maximum and the sum of each row are updated for
    each tile."""
    i = tg.tid()
    x = tg.tile_load(q, shape=(8, 4), offset=(i * 8, 0))
    top = tg.tile_full(shape=(8, 1), value=-1e30, dtype=D)
    total, acc = tg.tile_zeros(shape=(8, 1), dtype=D), tg.tile_zeros(shape=(8, 4), dtype=D)
    rows = tg.tile_reshape(tg.tile_arange(8, dtype=int), shape=(8, 1)) + i * 8
    for n in range(i + 1 if causal else k.shape[0] // 8):
        s = tg.tile_zeros(shape=(8, 8), dtype=D)
        tg.tile_matmul(x, tg.tile_transpose(tg.tile_load(k, shape=(8, 4), offset=(n * 8, 0))), s)
        if causal:
            columns = tg.tile_reshape(tg.tile_arange(8, dtype=int), shape=(1, 8)) + n * 8
            s = tg.where(columns <= rows, s * 0.5, -tg.inf)
        new_top = tg.max(top, tg.tile_max(s, axis=1, keepdims=True))
        p = tg.exp(s - tg.tile_broadcast(new_top, shape=(8, 8)))
        rescaling = tg.exp(top - new_top)
        total = total * rescaling + tg.tile_sum(p, axis=1, keepdims=True)
        acc = acc * tg.tile_broadcast(rescaling, shape=(8, 4))
        tg.tile_matmul(p, tg.tile_load(v, shape=(8, 4), offset=(n * 8, 0)), acc)
        top = new_top
    tg.tile_store(out, acc / tg.tile_broadcast(total, shape=(8, 4)), offset=(i * 8, 0))


@pytest.mark.machine_code
def test_adjoints_of_norms_agree_with_tangents() -> None:
    check(softmax, (3, 32), [random(3, 24), random(3, 24)], 32)
    check(layernorm, (3, 32), [random(3, 24), random(24), random(1, 24)[0], random(3, 24)], 32)


@pytest.mark.machine_code
@pytest.mark.parametrize("causal", [False, True])
def test_adjoints_of_attention_agree_with_tangents(causal: bool) -> None:
    q, k, v, out = (random(24, 4, low=-2.0 - n) for n in range(4))
    check(attention, (3, 32), [q, k, v, out, causal], 32)


@pytest.mark.machine_code
@pytest.mark.parametrize("transposed, swapped, activation", [(False, False, "silu"), (True, True, "gelu")])
def test_adjoints_of_the_library_matmul_agree_with_tangents(
    transposed: bool, swapped: bool, activation: str
) -> None:
    """The library matmul has roles and persistent blocks."""
    epilogue = gemm.Epilogue(tg.float32, True, False, True, activation, True)
    kernel = gemm.matmul_kernel(tg.float32, Tile(64, 64, 32, 2, 1, swapped=swapped), transposed, epilogue)
    a, b, bias, c = (
        random(*s, dtype=float) for s in ((70, 40), (66, 40) if transposed else (40, 66), (66,), (70, 66))
    )
    check(kernel, (2, 256), [a, b, bias, 0.5, 0.25, c], 256, FLOAT32_TOLERANCE)


@pytest.mark.machine_code
def test_adjoints_of_roles_agree_with_tangents() -> None:
    a, b, c = random(32, 16, dtype=float), random(16, 48, dtype=float), random(32, 48, dtype=float)
    check(role_kernels.matmul, (2, 3, 256), [2, a, b, c], 256, FLOAT32_TOLERANCE)
    check(role_kernels.persistent, (4, 256), [2, a, b, c], 256, FLOAT32_TOLERANCE)
    x, w, y = random(5, 24, dtype=float), random(8, dtype=float), random(5, 24, dtype=float)
    check(role_kernels.pipeline_of_three_roles, (5, 128), [x, w, y], 128, FLOAT32_TOLERANCE)
