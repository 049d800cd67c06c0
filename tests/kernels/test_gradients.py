"""Gradients of the library's kernels on a tape, with every option, against float64."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernel_arguments import NUMPY, normal, to_float64

import tegula as tg
from tegula.kernels import attention, gemm, matmul, operands, shapes

pytestmark = pytest.mark.machine_code

TOLERANCES = {
    "bfloat16": 2.0**-6,
    "float16": 2.0**-8,
    "float32": 1e-5,
    "float8_e4m3": 2.0**-6,
    "float8_e5m2": 2.0**-6,
}
"""The tolerance of gradients against float64, relative to the largest gradient, because gradients are sums of matmuls
of rounded numbers."""
ERF = np.vectorize(math.erf)


def _silu_slope(x: np.ndarray) -> np.ndarray:
    sigmoid = 1.0 / (1.0 + np.exp(-x))
    return sigmoid + x * sigmoid * (1.0 - sigmoid)


SLOPES: dict[str | None, Callable[[np.ndarray], Any]] = {
    None: np.ones_like,
    "relu": lambda x: (x > 0.0) * 1.0,
    "gelu": lambda x: (
        0.5 * (1.0 + ERF(x / math.sqrt(2.0))) + x * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    ),
    "silu": _silu_slope,
}


def array_with_gradient(*shape: int, dtype: str = "float32", seed: int = 0) -> tg.array:
    values = normal(*shape, dtype="float32", seed=seed)
    return tg.array(values, dtype=getattr(tg, dtype), requires_grad=True)


def assert_close(actual: Any, expected: np.ndarray, dtype: str, name: str) -> None:
    error = np.abs(to_float64(actual) - expected).max(initial=0.0) / max(
        np.abs(expected).max(initial=0.0), 1e-30
    )
    assert actual.shape == expected.shape and error <= TOLERANCES[dtype], (
        f"the gradient of {name} is {error:.3g} away"
    )


@tg.kernel
def doubled(x: tg.array2d[Any], y: tg.array2d[Any]):
    i, j = tg.tid()
    y[i, j] = x[i, j] + x[i, j]


def check_matmul(
    m: int = 20,
    n: int = 36,
    k: int = 40,
    dtype: str = "float32",
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    bias: bool = False,
    activation: str | None = None,
    transposed: bool = False,
    precision: str = "default",
    passes_out: bool = False,
    tile: Any = None,
) -> None:
    """`passes_out`: whether `out` is passed. The result goes through another launch, so that its own gradient is needed
    too."""
    a, b = (
        array_with_gradient(m, k, dtype=dtype),
        array_with_gradient(*((n, k) if transposed else (k, n)), dtype=dtype, seed=1),
    )
    result = dtype if dtype in NUMPY else "bfloat16"
    bias_array = array_with_gradient(n, dtype=result, seed=2) if bias else None
    out = array_with_gradient(m, n, dtype=result, seed=3) if passes_out else None
    old = to_float64(out) if out is not None else 0.0
    options: dict[str, Any] = {"activation": activation, "transpose_b": transposed, "precision": precision}
    y = tg.zeros((m, n), dtype=getattr(tg, result), requires_grad=True)
    with tg.Tape() as tape:
        c = matmul(a, b, out, alpha=alpha, beta=beta, bias=bias_array, tile=tile, **options)
        tg.launch(doubled, (m, n), [c], [y])
    seed = tg.array(normal(m, n, dtype="float32", seed=4), dtype=y.dtype)
    tape.backward(grads={y: seed})
    left, right = to_float64(a), to_float64(b).T if transposed else to_float64(b)
    total = alpha * left @ right + beta * old + (0.0 if bias_array is None else to_float64(bias_array))
    weights = 2.0 * to_float64(seed) * SLOPES[activation](total)
    right_gradient = alpha * left.T @ weights
    assert_close(a.grad, alpha * weights @ right.T, dtype, "a")
    assert_close(b.grad, right_gradient.T if transposed else right_gradient, dtype, "b")
    if bias_array is not None:
        assert_close(bias_array.grad, weights.sum(0), dtype, "bias")
    if passes_out:
        assert_close(c.grad, beta * weights, dtype, "out")


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", [*TOLERANCES])
def test_gradients_of_matmuls_match_float64(dtype: str, transposed: bool) -> None:
    check_matmul(dtype=dtype, transposed=transposed)


@pytest.mark.parametrize("transposed", [False, True])
def test_gradients_of_matmuls_in_tf32_match_float64(transposed: bool) -> None:
    """GPUs round operands to 10 bits, forwards and backwards."""
    a, b = (tg.array(np.round(normal(32, 32, dtype="float32", seed=s) * 8.0) / 8.0) for s in (0, 1))
    a.requires_grad = b.requires_grad = True
    with tg.Tape() as tape:
        c = matmul(a, b, transpose_b=transposed, precision="tf32")
    tape.backward(grads={c: np.ones((32, 32), np.float32)})
    ones, right = np.ones((32, 32)), to_float64(b).T if transposed else to_float64(b)
    assert_close(a.grad, ones @ right.T, "float32", "a")
    assert_close(b.grad, ones.T @ to_float64(a) if transposed else to_float64(a).T @ ones, "float32", "b")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("activation", ["relu", "gelu", "silu"])
def test_gradients_of_epilogues_match_float64(activation: str, dtype: str) -> None:
    check_matmul(dtype=dtype, alpha=0.25, bias=True, activation=activation)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("beta", [0.0, -0.5])
def test_gradients_of_a_given_output_are_scaled_by_beta(beta: float, dtype: str) -> None:
    """The gradient of the old output is scaled by beta."""
    check_matmul(dtype=dtype, passes_out=True, beta=beta, bias=True)


def test_an_old_output_under_an_activation_is_refused() -> None:
    """The derivative of the activation needs the old output, which is overwritten."""
    with pytest.raises(tg.CompileError, match="elements of 'c' that are read here") as caught:
        check_matmul(passes_out=True, beta=1.0, activation="gelu")
    assert caught.value.CODE == "overwritten-array"


@pytest.mark.parametrize(
    ("dtype", "tile"), [("float32", shapes.VECTOR_UNITS[-1]), ("bfloat16", shapes.TENSOR_CORES[-1])]
)
@pytest.mark.parametrize("activation", [None, "silu"])
def test_gradients_of_matmuls_with_splits_match_float64(
    activation: str | None, dtype: str, tile: Any
) -> None:
    """The splits' sums are memory of the call with its own gradient, so two calls do not share it."""
    check_matmul(8, 70, 300, dtype, bias=True, activation=activation, tile=tile.with_splits(3))
    a, b = array_with_gradient(8, 300, dtype=dtype), array_with_gradient(300, 70, dtype=dtype, seed=1)
    with tg.Tape() as tape:
        results = [
            matmul(a, b, activation="silu", alpha=alpha, tile=tile.with_splits(3)) for alpha in (0.1, 0.2)
        ]
    tape.backward(grads={c: np.ones(c.shape, np.float32) for c in results})
    total = to_float64(a) @ to_float64(b)
    weights = 0.1 * _silu_slope(0.1 * total) + 0.2 * _silu_slope(0.2 * total)
    assert_close(a.grad, weights @ to_float64(b).T, dtype, "a")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3"])
def test_gradients_through_copied_operands_match_float64(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that bulk copies do not reach are copied, on CPUs only here; gradients flow through the copies."""
    monkeypatch.setattr(gemm, "allows_bulk_reads", lambda known: False)
    monkeypatch.setattr(gemm, "plans", operands.ConfigCache(gemm.plans.make))
    for transposed in (False, True):
        check_matmul(21, 33, 37, dtype, transposed=transposed)


def test_gradients_of_transposed_copies_match_float64() -> None:
    b = array_with_gradient(37, 70)
    with tg.Tape() as tape:
        result = operands.transposed_copy(b, b.dtype)
    weights = normal(70, 37, dtype="float32", seed=1)
    tape.backward(grads={result: weights})
    np.testing.assert_array_equal(result.numpy(), b.numpy().T)
    np.testing.assert_array_equal(b.grad.numpy(), weights.T)


def test_results_have_gradients_where_a_tape_records() -> None:
    a, b = array_with_gradient(8, 8), array_with_gradient(8, 8, seed=1)
    assert not matmul(a, b).requires_grad
    with tg.Tape() as tape:
        assert tg.Tape.active() is tape
        assert matmul(a, b).requires_grad
        assert not matmul(tg.clone(a, requires_grad=False), tg.clone(b, requires_grad=False)).requires_grad
    assert tg.Tape.active() is None


# Attention ------------------------------------------------------------------------------------------------------------


def check_attention(
    rows: int,
    keys: int,
    *,
    causal: bool = False,
    heads: tuple[int, int] = (1, 1),
    batch: int = 1,
    depth: int = 64,
    dtype: str = "bfloat16",
    scale: float | None = None,
    logs: bool = False,
    passes_out: bool = False,
) -> None:
    q = array_with_gradient(batch, heads[0], rows, depth, dtype=dtype)
    k, v = (array_with_gradient(batch, heads[1], keys, depth, dtype=dtype, seed=seed) for seed in (1, 2))
    out = tg.zeros_like(q) if passes_out else None
    with tg.Tape() as tape:
        outputs = attention(q, k, v, out, causal=causal, scale=scale, return_lse=logs)
    result, lse = outputs if logs else (outputs, None)
    seed = tg.array(normal(*q.shape, dtype="float32", seed=3), dtype=q.dtype)
    grads, log_gradient = {result: seed}, np.zeros(q.shape[:3])
    if lse is not None:
        log_gradient = normal(*lse.shape, dtype="float32", seed=4)
        grads[lse] = tg.array(log_gradient)
    tape.backward(grads=grads)
    factor, group = depth**-0.5 if scale is None else scale, heads[0] // heads[1]
    left, right, values = to_float64(q), to_float64(k).repeat(group, 1), to_float64(v).repeat(group, 1)
    scores = left @ right.swapaxes(2, 3) * factor
    if causal:
        visible = np.arange(keys)[None, :] <= np.arange(rows)[:, None] + keys - rows
        scores = np.where(visible, scores, -np.inf)
    weights = np.exp(scores - np.maximum(scores.max(-1, keepdims=True), -1e30))
    total = weights.sum(-1, keepdims=True)
    weights = weights / np.where(total > 0.0, total, 1.0)
    weight_gradient = to_float64(seed) @ values.swapaxes(2, 3)
    inner = (weight_gradient * weights).sum(-1, keepdims=True)
    score_gradient = weights * (weight_gradient - inner + log_gradient[..., None]) * factor

    def sum_over_group(x: np.ndarray) -> np.ndarray:
        return x.reshape(batch, heads[1], group, keys, depth).sum(2)

    assert_close(q.grad, score_gradient @ right, dtype, "q")
    assert_close(k.grad, sum_over_group(score_gradient.swapaxes(2, 3) @ left), dtype, "k")
    assert_close(v.grad, sum_over_group(weights.swapaxes(2, 3) @ to_float64(seed)), dtype, "v")


@pytest.mark.cpu
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("rows", "keys"), [(70, 130), (130, 300), (200, 70)])
def test_gradients_of_attention_match_float64(rows: int, keys: int, causal: bool) -> None:
    check_attention(rows, keys, causal=causal, heads=(2, 1), scale=0.3, logs=causal, passes_out=not causal)


@pytest.mark.cpu
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_gradients_of_attention_of_long_heads_match_float64(dtype: str) -> None:
    check_attention(129, 129, causal=True, batch=2, depth=128, dtype=dtype, logs=True)


@pytest.mark.cpu
def test_gradients_of_attention_with_copied_operands_match_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["tegula.kernels.attention"]
    monkeypatch.setattr(module, "allows_bulk_reads", lambda known: False)
    monkeypatch.setattr(module, "plans", operands.ConfigCache(module.plans.make))
    check_attention(70, 130, heads=(2, 1))


@pytest.mark.gpu
def test_gradients_of_attention_match_float64_on_gpus() -> None:
    """The tiles of the adjoint fit a block, because adjoints that are multiplied as 16-bit numbers are rounded to
    them."""
    with tg.ScopedDevice("cuda:0"):
        check_attention(70, 130)
