"""An adjoint follows the paths of the kernel: recomputed values are rounded in the same way, so conditions, indices and
trip counts at the edge of rounding are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tegula as tg
from support.campaigns import PARTS, chunks, latin_part

pytestmark = pytest.mark.machine_code

N = 64
PRODUCT_FORMS = {
    "stored": "p = u * v; q[i] = p",
    "not stored": "p = u * v",
    "used twice": "p = u * v; r = p + w; q[i] = r",
    "by a function": "p = multiply(u, v)",
    "by a function, stored": "p = multiply(u, v); q[i] = p",
    "in a vector": "h = tg.vector(u, w) * v; p = h[0]; q[i] = h[1]",
    "in a function with a derivative": "p = multiply_with_gradient(u, v); q[i] = p",
    "in the argument of a library function": "p = -tg.log1p(u * v * 0.0) + u * v",
    "in a branch": "p = u\nif v != 0.0:\n    p = u * v\nq[i] = p",
    "carried": "p = u\nfor k in range(2):\n    q[i] = p\n    p = p * v if k == 1 else p",
}
"""Statements that compute p = u v."""
CONDITIONS = {
    "sum": "d = p - w",
    "difference": "d = w - p; d = -d",
    "two matmuls": "d = p - w * tg.abs(v) / tg.abs(v)",
    "rounded": "d = tg.floor((p - w) * 16777216.0)",
    "function": "d = tg.expm1(p - w)",
}
"""Statements that compute a value d close to 0."""
PATHS = {
    "expression": "y[i] = x[i] * 2.0 if d >= 0.0 else x[i] * 5.0",
    "branch": "y[i] = x[i]\nif d >= 0.0:\n    y[i] = x[i] * 3.0",
    "select": "y[i] = tg.where(d > 0.0, x[i], x[i] * 4.0)",
    "index": "y[i] = x[i] * tg.vector(float(1.0), float(2.0), float(3.0))[int(tg.sign(d)) + 1]",
    "while": "s = x[i]\nwhile d >= 0.0:\n    s += x[i]\n    d -= 1.0\ny[i] = s",
    "for": "s = x[i]\nfor k in range(int(d >= 0.0) + 1):\n    s += x[i]\ny[i] = s",
    "tile": "t = tg.tile(x[i]); e = tg.tile(d); y[i] = tg.untile(tg.where(e >= 0.0, t * 2.0, t * 5.0))",
}
"""Statements that multiply x by an integer that depends on the sign of a number."""


@tg.func
def multiply(a, b):
    return a * b


@tg.func
def multiply_with_gradient(a: Any, b: Any):
    return a * b


@tg.func_grad(multiply_with_gradient)
def _(a, b, g):
    tg.adjoint[a] += g * b
    tg.adjoint[b] += g * a


def check(product: str, condition: str, path: str, dtype: Any) -> None:
    """Check that y is x times an integer, and that this integer is the gradient."""
    statements = "\n".join((PRODUCT_FORMS[product], CONDITIONS[condition], PATHS[path])).replace("; ", "\n")
    text = (
        "def kernel(x: tg.array[D], a: tg.array[D], b: tg.array[D], c: tg.array[D], q: tg.array[D], y: tg.array[D]):\n"
        "    i = tg.tid()\n    u = a[i]\n    v = b[i]\n    w = c[i]\n    "
    ) + statements.replace("\n", "\n    ").replace("float(", "D(")
    space: dict[str, Any] = {
        "tg": tg,
        "D": dtype,
        "multiply": multiply,
        "multiply_with_gradient": multiply_with_gradient,
    }
    exec(text, space)
    kernel = tg.kernel(source=text + "\n")(space["kernel"])
    rng = np.random.default_rng(0)
    x, a, b = (tg.array(rng.uniform(0.5, 1.5, N), dtype=dtype, requires_grad=True) for _ in range(3))
    c = tg.array(a.numpy() * b.numpy(), dtype=dtype)
    y, q = tg.zeros(N, dtype=dtype, requires_grad=True), tg.zeros(N, dtype=dtype, requires_grad=True)
    with tg.Tape() as tape:
        tg.launch(kernel, N, [x, a, b, c], [q, y], block_dim=32)
    tape.backward(grads={y: tg.ones(N, dtype=dtype)})
    branches = np.round(y.numpy().astype(float) / x.numpy().astype(float))
    np.testing.assert_array_equal(x.grad.numpy().astype(float), branches, text)


@pytest.mark.parametrize(("product", "condition", "path"), [("stored", "sum", "expression")])
def test_adjoints_follow_the_paths_of_the_kernel_at_the_edge_of_rounding(
    product: str, condition: str, path: str
) -> None:
    check(product, condition, path, tg.float32)


@pytest.mark.parametrize("number", chunks(range(PARTS)))
@pytest.mark.parametrize("dtype", [tg.float32, tg.float64, tg.bfloat16], ids=str)
@pytest.mark.parametrize("path", [*PATHS])
def test_adjoints_follow_every_path_of_the_kernel(
    path: str, dtype: Any, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every product, every condition with every path, and a part of their combinations; a campaign runs all
    combinations."""
    monkeypatch.setattr(tg.config, "cache_kernels", False)
    for row, product in enumerate(PRODUCT_FORMS):
        for condition in latin_part([*CONDITIONS], row + [*PATHS].index(path), number):
            check(product, condition, path, dtype)
