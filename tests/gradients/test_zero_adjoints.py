"""An adjoint of 0 stays 0 even if a derivative is infinite or NaN, so that no NaN propagates to other gradients."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

import tegula as tg
from support.campaigns import PARTS, chunks, latin_part

pytestmark = pytest.mark.machine_code

SINGULARITIES = {
    "1.0 / {}": 0.0,
    "{} / {}": 0.0,
    "tg.sqrt({})": 0.0,
    "tg.sqrt({} - 1.0)": 0.0,
    "tg.rsqrt({})": 0.0,
    "tg.log({})": 0.0,
    "tg.log2({}) * {}": 0.0,
    "tg.log10({})": 0.0,
    "tg.log1p({} - 1.0)": 0.0,
    "tg.pow({}, 0.5)": 0.0,
    "tg.pow({}, -2.0)": 0.0,
    "tg.exp({})": 100.0,
    "tg.exp2({}) * {}": 200.0,
    "tg.exp10(tg.exp({}))": 50.0,
    "tg.expm1({})": 100.0,
    "tg.sinh({})": 100.0,
    "tg.cosh({} * {})": 20.0,
    "tg.acos(1.0 + {})": 0.0,
    "tg.asin({} - 1.0)": 0.0,
    "tg.cbrt({})": 0.0,
    "tg.atan2({}, {})": 0.0,
    "tg.erfinv({} - 1.0)": 0.0,
    "tg.mod({}, {})": 0.0,
    "{} * {}": math.inf,
    "{} * {} + {}": math.nan,
    "tg.sin({})": math.inf,
    "tg.fma({}, {}, {})": math.inf,
    "tg.tanh({}) * {}": math.nan,
    "tg.length(tg.vector({0}, {0} * {0}))": 0.0,
    "tg.length(tg.vector({0}, {0}))": math.inf,
    "tg.normalize(tg.vector({0}, {0}))[0]": 0.0,
    "tg.fast.exp2({})": 500.0,
}
"""Expressions, and points at which their derivative, or a factor of the derivative, is infinite or NaN."""

MASKS = {
    "a select": "y[j] = tg.where(m != 0.0, {f}, 3.0 * x[j])",
    "an expression": "y[j] = {f} if m != 0.0 else 3.0 * x[j]",
    "a branch": "f = {f}\nif m != 0.0:\n    y[j] = f\nelse:\n    y[j] = 3.0 * x[j]",
    "a loop": "f = {f}\ns = 3.0 * x[j] * (1.0 - m)\nfor k in range(int(m)):\n    s += f\ny[j] = s",
    "a while": "f = {f}\ns = 3.0 * x[j] * (1.0 - m)\nk = int(0)\nwhile k < int(m):\n    s += f\n    k += 1\ny[j] = s",
    "a tile": "f = tg.tile({f})\ne = tg.tile(x[j])\ny[j] = tg.untile(tg.where(tg.tile(m) != 0.0, f, e * 3.0))",
    "an element": "f = tg.tile({f})\ny[j] = f[j] if m != 0.0 else 3.0 * x[j]",
    "a component": "f = tg.vector({f}, 3.0 * x[j])\ny[j] = f[int(1.0 - m)]",
    "overwritten": "f = {f}\ny[j] = f\nif m == 0.0:\n    y[j] = 3.0 * x[j]",
    "a mapped function": "y[j] = tg.untile(tg.tile_map(choose, tg.tile({f}), tg.tile(m), tg.tile(x[j])))",
}
"""Kernels that compute f if m is 1, and 3 x if m is 0."""


@tg.func
def choose(f, m, x):
    return f if m != 0.0 else 3.0 * x


def gradient(text: str, x: Any, m: Any, g: Any, dtype: Any) -> np.ndarray:
    """The gradient of sum(g * y) by x, for a kernel(x, masks, y) with eight threads."""
    body = text.replace("\n", "\n    ")
    source = (
        f"def kernel(x: tg.array[D], masks: tg.array[D], y: tg.array[D]):\n    i, j = tg.tid()\n    {body}\n"
    )
    space: dict[str, Any] = {"tg": tg, "D": dtype, "choose": choose}
    exec(source, space)
    kernel = tg.kernel(source=source)(space["kernel"])
    a = tg.array(np.asarray(x), dtype=dtype, requires_grad=True)
    y = tg.zeros(len(g), dtype=dtype, requires_grad=True)
    with tg.Tape() as tape:
        tg.launch_tiled(
            kernel, dim=1, inputs=[a, tg.array(np.asarray(m), dtype=dtype)], outputs=[y], block_dim=8
        )
    tape.backward(grads={y: tg.array(np.asarray(g), dtype=dtype)})
    return a.grad.numpy().astype(float)


def check(expression: str, mask: str, dtype: Any) -> None:
    """The first four threads compute 3 x at a point where f has no derivative; the others compute f at a regular
    point."""
    singular, regular = (
        SINGULARITIES[expression],
        0.5 if "asin" in expression or "erfinv" in expression else 1.5,
    )
    if "acos" in expression:
        regular = -0.5
    f = expression.format("u", "u", "u")
    x, m = np.array([singular] * 4 + [regular] * 4), np.array([0.0] * 4 + [1.0] * 4)
    text = f"m = masks[j]\nu = x[j]\n{MASKS[mask].format(f=f)}"
    if mask in ("a loop", "a while") and not math.isfinite(singular):
        return
    result = gradient(text, x, m, np.ones(8), dtype)
    unmasked = gradient(f"u = x[j]\ny[j] = {f}", x, m, [0.0] * 4 + [1.0] * 4, dtype)
    assert np.isfinite(unmasked[4:]).all()
    assert result.tolist() == [3.0] * 4 + unmasked[4:].tolist(), text
    if math.isfinite(singular):
        assert unmasked[:4].tolist() == [0.0] * 4, "a gradient of 0 stays 0"


@pytest.mark.parametrize(
    ("expression", "mask"),
    [("tg.sqrt({})", "an expression"), ("{} * {}", "a select")],
)
def test_operands_that_are_not_selected_do_not_poison_gradients(expression: str, mask: str) -> None:
    check(expression, mask, tg.float32)


@pytest.mark.parametrize("number", chunks(range(PARTS)))
@pytest.mark.parametrize("dtype", [tg.float32, tg.bfloat16], ids=str)
@pytest.mark.parametrize("mask", [*MASKS])
def test_masked_singularities_do_not_poison_gradients(
    mask: str, dtype: Any, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every expression, every mask, and a part of their combinations; a campaign runs all combinations."""
    monkeypatch.setattr(tg.config, "cache_kernels", False)
    for expression in latin_part([*SINGULARITIES], [*MASKS].index(mask), number):
        check(expression, mask, dtype)


PARTIAL_TILES = {
    "s / t": ([2.0], [2.0, 4.0, 8.0], 0.5 + 0.25 + 0.125),
    "s * tg.log(t)": ([2.0], [1.0, math.e, 1.0], 1.0),
    "tg.pow(t, -1.0) * s": ([2.0], [2.0, 4.0, 8.0], 0.5 + 0.25 + 0.125),
    "s * tg.rsqrt(t)": ([2.0], [4.0, 16.0, 64.0], 0.5 + 0.25 + 0.125),
    "(s + t) / t": ([2.0], [2.0, 4.0, 8.0], 0.5 + 0.25 + 0.125),
    "s / t * t": ([2.0], [2.0, 4.0, 8.0], 3.0),
}
"""Functions of a number s and a tile t of eight elements, of which three are in bounds: s, the elements, and the
derivative of the sum by s."""


@pytest.mark.parametrize(
    "expression", ["s / t", *(pytest.param(e, marks=pytest.mark.slow) for e in PARTIAL_TILES if e != "s / t")]
)
def test_out_of_bounds_elements_have_no_effect_on_gradients(expression: str) -> None:
    x, w, slope = PARTIAL_TILES[expression]
    text = f"s = x[0]\nt = tg.tile_load(masks, shape=8)\ntg.tile_store(y, {expression})"
    assert gradient(text, x, w, [1.0] * 3, tg.float64).tolist() == pytest.approx([slope], rel=1e-12)


@pytest.mark.slow
def test_derivatives_at_0_follow_the_documented_rules() -> None:
    """Derivatives at 0 follow the rules of docs/gradients.md."""
    vector_text, output_adjoint = "v = tg.vector(x[0], x[1], x[2])", [1.0]
    assert (
        gradient(f"{vector_text}\ny[0] = tg.length(v)", [0.0] * 3, [0.0], output_adjoint, tg.float32).tolist()
        == [0.0] * 3
    )
    assert (
        gradient(
            f"{vector_text}\ny[0] = tg.normalize(v)[1]", [0.0] * 3, [0.0], output_adjoint, tg.float32
        ).tolist()
        == [0.0] * 3
    )
    for form, slope in {"tg.sqrt(x[0])": np.inf, "tg.pow(x[0], 0.5)": np.inf, "tg.pow(x[0], 1.0)": 1.0,
                        "tg.pow(x[0], 2.0)": 0.0, "tg.pow(x[0], 0.0)": 0.0, "tg.hypot(x[0], x[0])": 0.0,
                        "tg.atan2(x[0], x[0])": 0.0, "tg.cbrt(x[0])": np.inf}.items():  # fmt: skip
        assert gradient(f"y[0] = {form}", [0.0], [0.0], output_adjoint, tg.float32).tolist() == [slope], form


@tg.kernel
def softmax_of_rows(x: tg.array2d[float], y: tg.array2d[float]):
    t = tg.tile_load(x, shape=(4, 8))
    e = tg.exp(t - tg.tile_max(t, axis=1, keepdims=True))
    tg.tile_store(y, e * (1.0 / tg.tile_sum(e, axis=1, keepdims=True)))


@tg.kernel
def softmax_over_columns(x: tg.array2d[float], y: tg.array2d[float]):
    t = tg.tile_load(x, shape=(4, 8))
    e = tg.exp(t - tg.tile_max(t, axis=1, keepdims=True))
    tg.tile_store(y, e * (1.0 / tg.tile_sum(e, axis=0, keepdims=True)))


@tg.kernel
def softmax_with_bounded_maximum(x: tg.array2d[float], y: tg.array2d[float]):
    t = tg.tile_load(x, shape=(4, 8))
    e = tg.exp(t - tg.max(tg.tile_max(t, axis=1, keepdims=True), 200.0))
    tg.tile_store(y, e * (1.0 / tg.tile_sum(e, axis=1, keepdims=True)))


def gradient_of_rows(kernel: Any, x: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, str]:
    """The gradient of x, and the IR of the adjoint kernel."""
    a, y = (tg.array(v, dtype=float, requires_grad=True) for v in (x, np.zeros_like(x)))
    with tg.Tape() as tape:
        tg.launch_tiled(kernel, 1, inputs=[a], outputs=[y], block_dim=32)
    tape.backward(grads={y: tg.array(g, dtype=float)})
    (adjoint,) = kernel.adjoints.values()
    return a.grad.numpy(), adjoint.ir("contract_fma")


def test_zero_adjoints_are_guarded_where_a_factor_may_be_infinite() -> None:
    """A sum of exponentials is at least 1 only if it is along the rows whose maximum is subtracted."""
    x = np.random.default_rng(0).standard_normal((4, 8))
    g = np.ones((4, 8))
    assert not has_zero_guard(gradient_of_rows(softmax_of_rows, x, g)[1])
    x[:, 2] = -300.0
    g[:, 2] = 0.0
    gradients, text = gradient_of_rows(softmax_over_columns, x, g)
    assert has_zero_guard(text) and np.isfinite(gradients).all()
    x[1], g[1] = -100.0, 0.0
    gradients, text = gradient_of_rows(softmax_with_bounded_maximum, x, g)
    assert has_zero_guard(text) and not gradients[1].any()


def has_zero_guard(text: str) -> bool:
    """Whether a kernel compares a value with 0."""
    zeros = re.findall(r"(%\S+): float32 = const \[type = float32, value = 0.0\]", text)
    return any(re.search(rf'cmp \S+ {zero} \[pred = "eq"\]', text) for zero in zeros)
