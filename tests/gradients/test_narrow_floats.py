"""Adjoints of 8-bit and 16-bit floats are float32 until they are stored, so that small terms are not lost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tegula as tg

pytestmark = pytest.mark.machine_code

ITERATIONS = 1024
"""A number of terms that 16-bit sums cannot count: adding 1 does not change 256 in bfloat16 or 2048 in float16."""

FIRST_ELEMENT, ALL_ELEMENTS = [1, 0, 0, 0, 0, 0, 0, 0], [1] * 8
FORMS: dict[str, tuple[str, list[int]]] = {
    "a scalar": ("u = x[0]; loop; s += float(u)", [8 * k for k in FIRST_ELEMENT]),
    "a scalar of each thread": ("u = x[j]; loop; s += float(u)", ALL_ELEMENTS),
    "a component": ("v = tg.vector(x[0], x[1]); loop; s += float(v[0])", [8 * k for k in FIRST_ELEMENT]),
    "a tile": ("t = row; loop; z += tg.tile_astype(t, float)", ALL_ELEMENTS),
    "a tile in shared memory": (
        "t = tg.tile_load(x, shape=8, storage='shared'); loop; z += tg.tile_astype(t, float)",
        ALL_ELEMENTS,
    ),
    "a view": ("t = row; v = t[2:6]; loop; z[0:4] += tg.tile_astype(v, float)", [0, 0, 1, 1, 1, 1, 0, 0]),
    "elements": ("t = row; t[0] = t[1]; loop; s += float(t[0])", [0, 8, 0, 0, 0, 0, 0, 0]),
    "a carried tile": ("t = row; loop; z += tg.tile_astype(t, float); t = t * 1.0", ALL_ELEMENTS),
    "a carried scalar": ("u = x[0]; loop; s += float(u); u = u * 1.0", [8 * k for k in FIRST_ELEMENT]),
    "a function": ("t = row; loop; z += tg.tile_astype(tg.tile_map(double, t), float)", [2] * 8),
    "a function of scalars": ("u = x[0]; loop; s += float(double(u))", [16 * k for k in FIRST_ELEMENT]),
    "a sum": ("t = row; loop; s += float(tg.tile_sum(t)[0])", [8] * 8),
    "a maximum": ("t = row; loop; s += float(tg.tile_max(t)[0])", ALL_ELEMENTS),
    "a broadcast": (
        "t = row[0:1]; loop; z += tg.tile_astype(tg.tile_broadcast(t, (8,)), float)",
        [8 * k for k in FIRST_ELEMENT],
    ),
    "a product": (
        "t = row; o = tg.tile_ones(shape=8, dtype=D); loop; z += tg.tile_astype(t * o, float)",
        ALL_ELEMENTS,
    ),
    "a sum of narrow numbers": ("t = row; loop; z += tg.tile_astype(t + t, float)", [2] * 8),
    "a select": ("t = row; loop; z += tg.tile_astype(tg.where(t > 0.0, t, -t), float)", ALL_ELEMENTS),
}
"""The body of a kernel, and the gradient of the sum of its results by x, divided by ITERATIONS."""


def kernel_of(form: str, dtype: Any) -> Any:
    """A kernel(n, x, y) that stores a float32 sum `s` of each thread, and a float32 tile `z`."""
    prologue, loop_body = FORMS[form][0].replace("row", "tg.tile_load(x, shape=8)").split("; loop; ")
    lines = ["i, j = tg.tid()", "s = float(0.0)", "z = tg.tile_zeros(shape=8)", *prologue.split("; ")]
    lines += ["for k in range(n):", *(f"    {line}" for line in loop_body.split("; "))]
    body = "\n    ".join([*lines, "tg.tile_store(y, z)", "y[8 + j] = s"])
    text = f"def kernel(n: int, x: tg.array[D], y: tg.array[float]):\n    {body}\n"
    space: dict[str, Any] = {"tg": tg, "D": dtype, "double": double}
    exec(text, space)
    return tg.kernel(source=text)(space["kernel"])


@tg.func
def double(x):
    return x + x


def check(form: str, dtype: Any) -> None:
    x, y = tg.ones(8, dtype=dtype, requires_grad=True), tg.zeros(16, requires_grad=True)
    with tg.Tape() as tape:
        tg.launch(kernel_of(form, dtype), (1, 8), [ITERATIONS, x], [y], block_dim=8)
    tape.backward(grads={y: tg.ones(16)})
    assert (x.grad.numpy().astype(float) / ITERATIONS).tolist() == FORMS[form][1]


@pytest.mark.parametrize("form", ["a scalar", "a tile", "a view", "a sum of narrow numbers"])
def test_adjoints_of_narrow_floats_accumulate_in_float32(form: str) -> None:
    check(form, tg.bfloat16)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [tg.bfloat16, tg.float16, tg.float8_e5m2], ids=str)
@pytest.mark.parametrize("form", [*FORMS])
def test_all_adjoints_of_narrow_floats_accumulate_in_float32(form: str, dtype: Any) -> None:
    check(form, dtype)


# Products -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [tg.float16, pytest.param(tg.bfloat16, marks=pytest.mark.slow)], ids=str)
def test_gradients_of_products_with_small_factors_do_not_vanish(dtype: Any) -> None:
    """alpha = 1e-8 is not representable in float16, and sums of 64 products of 1000 and 1000 overflow float16."""

    @tg.kernel
    def scaled(a: tg.array2d[Any], b: tg.array2d[Any], alpha: tg.array[float], c: tg.array2d[float]):
        x, y = tg.tile_load(a, shape=(64, 64)), tg.tile_load(b, shape=(64, 64))
        total = tg.tile_zeros(shape=(64, 64))
        tg.tile_matmul(x, y, total, alpha=alpha[0])
        tg.tile_store(c, total)

    a, b = (tg.full((64, 64), 1000.0, dtype=dtype, requires_grad=True) for _ in range(2))
    alpha, c = tg.full(1, 1e-8, requires_grad=True), tg.zeros((64, 64), requires_grad=True)
    with tg.Tape() as tape:
        tg.launch_tiled(scaled, dim=1, inputs=[a, b, alpha], outputs=[c], block_dim=32)
    tape.backward(grads={c: tg.full((64, 64), 1000.0)})
    for x in (a, b):
        np.testing.assert_allclose(x.grad.numpy().astype(float), 64 * 1e-2, rtol=1e-2)
    np.testing.assert_allclose(alpha.grad.numpy(), 64.0**3 * 1e9, rtol=1e-5)


# Functions with custom gradients --------------------------------------------------------------------------------------


@tg.func
def doubled(x: tg.float16):
    return x + x


@tg.func
def doubled_untyped(x):
    return x + x


@tg.func_grad(doubled)
def doubled_gradient(x: tg.float16, g: tg.float16):
    tg.adjoint[x] += g * x


@tg.func_grad(doubled_untyped)
def doubled_untyped_gradient(x, g):
    tg.adjoint[x] += g * x


@pytest.mark.parametrize("f", [doubled_untyped, pytest.param(doubled, marks=pytest.mark.slow)])
def test_gradient_functions_take_their_declared_types(f: Any) -> None:
    """Increments are converted to the adjoint's type. A function without declared types computes in the adjoint's
    type."""

    @tg.kernel
    def kernel(n: int, x: tg.array[tg.float16], y: tg.array[float]):
        t = tg.tile_load(x, shape=8)
        z = tg.tile_zeros(shape=8)
        for k in range(n):
            z += tg.tile_astype(tg.tile_map(f, t), float)
        tg.tile_store(y, z)

    x, y = tg.full(8, 2.0, dtype=tg.float16, requires_grad=True), tg.zeros(8, requires_grad=True)
    with tg.Tape() as tape:
        tg.launch_tiled(kernel, dim=1, inputs=[4096, x], outputs=[y], block_dim=8)
    tape.backward(grads={y: tg.ones(8)})
    assert x.grad.numpy().tolist() == [8192.0] * 8
