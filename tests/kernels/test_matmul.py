"""Matmuls of the library: every layout, edge and epilogue against float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from kernel_arguments import FLOAT8, NUMPY, assert_near, integers, normal, to_float64

import tegula as tg
from support.campaigns import sampled
from tegula.kernels import gemm, matmul, operands, shapes
from tegula.kernels.operands import is_aligned, transposed_copy

ERF = np.vectorize(math.erf)
ACTIVATIONS = {
    None: lambda x: x,
    "relu": lambda x: np.maximum(x, 0.0),
    "gelu": lambda x: 0.5 * x * (1.0 + ERF(x / math.sqrt(2.0))),
    "silu": lambda x: x / (1.0 + np.exp(-x)),
}


def check(
    m: int,
    n: int,
    k: int,
    dtype: str = "bfloat16",
    tile: Any = None,
    transposed: bool = False,
    precision: str = "default",
) -> None:
    """A matmul of small integers, which is exact in float32 and rounded once."""
    a = integers(m, k, dtype=dtype)
    b = integers(*((n, k) if transposed else (k, n)), dtype=dtype, seed=1)
    c = matmul(tg.array(a), tg.array(b), transpose_b=transposed, precision=precision, tile=tile)
    result = "bfloat16" if dtype in FLOAT8 else dtype
    assert c.shape == (m, n) and str(c.dtype) == result
    expected = to_float64(a) @ (to_float64(b).T if transposed else to_float64(b))
    np.testing.assert_array_equal(c.numpy(), expected.astype(np.float32).astype(NUMPY[result]))


@pytest.mark.machine_code
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("tile", shapes.TENSOR_CORES, ids=lambda t: f"{t.rows}x{t.columns}x{t.depth}")
def test_matmuls_with_every_tile_match_float64(tile: shapes.Tile, transposed: bool) -> None:
    check(tile.rows + 8, tile.columns + 8, 2 * tile.depth + 8, tile=tile, transposed=transposed)


@pytest.mark.machine_code
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("splits", [2, 3, 5])
@pytest.mark.parametrize("shape", [(8, 200, 1300), (70, 65, 128), (65, 1030, 600), (3, 3, 0)])
def test_matmuls_with_splits_match_float64(
    shape: tuple[int, int, int], splits: int, transposed: bool
) -> None:
    """Some blocks may have no iterations."""
    check(*shape, tile=shapes.TENSOR_CORES[-1].with_splits(splits), transposed=transposed)


@pytest.mark.machine_code
def test_epilogues_of_matmuls_with_splits_match_float64() -> None:
    tile = shapes.TENSOR_CORES[-1].with_splits(3)
    a, b, bias, old = (
        normal(*shape, seed=seed) for seed, shape in enumerate([(20, 900), (900, 70), (70,), (20, 70)])
    )
    arrays, out = [tg.array(x) for x in (a, b)], tg.array(old)
    matmul(*arrays, out, alpha=0.5, beta=2.0, bias=tg.array(bias), activation="gelu", tile=tile)
    expected = ACTIVATIONS["gelu"](
        0.5 * (to_float64(a) @ to_float64(b)) + 2.0 * to_float64(old) + to_float64(bias)
    )
    assert_near(out, expected, "bfloat16", scale=30.0)
    old_copy = tg.array(old)
    matmul(*arrays, old_copy, alpha=0.5, beta=2.0, bias=tg.array(bias), activation="gelu", tile=tile)
    np.testing.assert_array_equal(to_float64(old_copy), to_float64(out))


@pytest.mark.machine_code
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("tile", shapes.VECTOR_UNITS, ids=lambda t: f"{t.rows}x{t.columns}x{t.depth}")
def test_matmuls_of_float32_with_every_tile_match_float64(tile: shapes.Tile, transposed: bool) -> None:
    check(tile.rows + 4, tile.columns + 4, 3 * tile.depth + 4, "float32", tile, transposed)


@pytest.mark.machine_code
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    ("dtype", "precision"), [("float8_e4m3", "default"), ("float8_e5m2", "default"), ("float32", "tf32")]
)
def test_matmuls_of_every_dtype_with_every_tile_match_float64(
    dtype: str, precision: str, transposed: bool
) -> None:
    """Operands of 8 bits, and of float32 as tf32, which holds these numbers exactly."""
    for tile in shapes.candidates(getattr(tg, dtype), False, precision)[2:]:
        check(tile.rows + 8, tile.columns + 8, 2 * tile.depth + 8, dtype, tile, transposed, precision)


@pytest.mark.machine_code
def test_matmuls_of_float8_match_float64() -> None:
    a, b = integers(20, 40, dtype="float8_e4m3"), integers(40, 30, dtype="float8_e4m3", seed=1)
    out = tg.ones((20, 30), dtype=tg.float32)
    bias = integers(30, dtype="float16", seed=2)
    matmul(tg.array(a), tg.array(b), out, alpha=0.5, beta=2.0, bias=tg.array(bias), activation="relu")
    expected = np.maximum(0.5 * (to_float64(a) @ to_float64(b)) + 2.0 + to_float64(bias), 0.0)
    np.testing.assert_array_equal(to_float64(out), expected)


@pytest.mark.machine_code(some=True)
@pytest.mark.parametrize("dtype", ["float8_e4m3", "bfloat16", "float32"])
@pytest.mark.parametrize("shape", [(1, 1), (65, 130), (100, 8), (0, 3)])
def test_transposed_copies_match_numpy_and_are_aligned(shape: tuple[int, int], dtype: str) -> None:
    """The rows of the operands start at addresses that bulk copies can read."""
    x = tg.array(integers(*shape, dtype=dtype))
    result = transposed_copy(x, x.dtype)
    np.testing.assert_array_equal(to_float64(result), to_float64(x).T)
    assert is_aligned(result) or not x.size


@pytest.mark.machine_code
@pytest.mark.parametrize("dtype", NUMPY)
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 129, 127), (65, 1, 300), (127, 33, 5), (136, 264, 8)])
def test_matmuls_of_any_shape_match_float64(shape: tuple[int, int, int], dtype: str) -> None:
    check(*shape, dtype=dtype)


@pytest.mark.machine_code
def test_matmuls_of_empty_arrays_match_numpy() -> None:
    for m, n, k in ((0, 3, 4), (3, 0, 4), (0, 0, 0)):
        check(m, n, k)
    check(3, 5, 0)


@pytest.mark.machine_code
@pytest.mark.parametrize("dtype", NUMPY)
@sampled(3, "activation", ACTIVATIONS)
def test_epilogues_of_matmuls_match_float64(activation: str | None, dtype: str) -> None:
    a, b, bias = (
        normal(40, 72, dtype=dtype),
        normal(72, 48, dtype=dtype, seed=1),
        normal(48, dtype=dtype, seed=2),
    )
    old = normal(40, 48, dtype=dtype, seed=3)
    activate = ACTIVATIONS[activation]
    unscaled = to_float64(a) @ to_float64(b)
    arrays = [tg.array(x) for x in (a, b)]
    for alpha, beta, bias_or_none in (
        (1.0, 0.0, None),
        (0.5, 0.0, bias),
        (1.0, -1.5, None),
        (-0.25, 2.0, bias),
    ):
        out = tg.array(old) if beta else tg.full(old.shape, float("nan"), dtype=getattr(tg, dtype))
        inputs = {
            "alpha": alpha,
            "beta": beta,
            "bias": None if bias_or_none is None else tg.array(bias_or_none),
        }
        assert matmul(*arrays, out, activation=activation, **inputs) is out
        expected = (
            alpha * unscaled
            + beta * to_float64(old)
            + (0.0 if bias_or_none is None else to_float64(bias_or_none))
        )
        assert_near(out, activate(expected), dtype)


@pytest.mark.machine_code
@pytest.mark.parametrize("activation", ["gelu", "silu"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_activations_far_from_zero_match_float64(activation: str, dtype: str) -> None:
    """Small results of large negative numbers are accurate too."""
    x = np.linspace(-9.0, 9.0, 64, dtype=np.float32).astype(NUMPY[dtype])[:, None]
    actual = to_float64(matmul(tg.array(x), tg.ones((1, 1), dtype=getattr(tg, dtype)), activation=activation))
    np.testing.assert_allclose(actual, ACTIVATIONS[activation](to_float64(x)), rtol=2.0**-7, atol=1e-6)


@pytest.mark.machine_code
@pytest.mark.parametrize("result", NUMPY)
def test_matmuls_with_other_types_of_results_and_biases_match_float64(result: str) -> None:
    a, b, bias = normal(20, 136), normal(136, 24, seed=1), normal(24, dtype="float32", seed=2)
    out = tg.zeros((20, 24), dtype=getattr(tg, result))
    matmul(tg.array(a), tg.array(b), out, bias=tg.array(bias))
    assert_near(out, to_float64(a) @ to_float64(b) + bias, result, scale=20.0)


@pytest.mark.machine_code
def test_matmuls_of_strided_operands_and_results_match_float64() -> None:
    a, b = integers(40, 2 * 64), integers(50, 70, seed=1)
    memory = tg.zeros((40, 128), dtype=tg.bfloat16)
    matmul(tg.array(a)[:, 40:90], tg.array(b), memory[:, 8:78])
    expected = to_float64(a)[:, 40:90] @ to_float64(b)
    np.testing.assert_array_equal(to_float64(memory)[:, 8:78], to_float64(expected.astype(NUMPY["bfloat16"])))
    assert not to_float64(memory)[:, :8].any() and not to_float64(memory)[:, 78:].any()
    c = matmul(tg.array(a).transpose(), tg.array(a))
    np.testing.assert_array_equal(
        to_float64(c), to_float64((to_float64(a).T @ to_float64(a)).astype(NUMPY["bfloat16"]))
    )


@pytest.mark.machine_code
def test_matmuls_take_arrays_of_other_libraries() -> None:
    a, b = normal(20, 30, dtype="float32"), normal(30, 10, dtype="float32", seed=1)
    out = np.full((20, 10), np.nan, np.float32)
    assert matmul(a, b, out) is out
    assert_near(out, to_float64(a) @ to_float64(b), "float32", scale=5.0)
    assert isinstance(matmul(a, b), tg.array)


def zeros(*shape: int, dtype: Any = tg.bfloat16) -> tg.array:
    return tg.zeros(shape, dtype=dtype)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((zeros(4, 5), zeros(6, 4)), {}, "'b' must have shape (5, 4) to fit 'a' of shape (4, 5), got (6, 4)"),
        ((zeros(4, 5), zeros(5, 6)), {"transpose_b": True}, "must have shape (5, 5) to fit 'a' of shape (4, 5) with"),
        ((zeros(4), zeros(4, 4)), {}, "'a' must have 2 dimensions, got shape (4,)"),
        ((zeros(4, 4), zeros(4, 4, dtype=tg.float16)), {}, "must be of one dtype, got bfloat16 and float16"),
        ((zeros(4, 4, dtype=tg.float64), zeros(4, 4)), {}, "or float32 or float8_e4m3 or float8_e5m2, got float64"),
        ((zeros(4, 4, dtype=tg.float8_e4m3), zeros(4, 4)), {}, "of one dtype, got float8_e4m3 and bfloat16"),
        ((zeros(4, 4), zeros(4, 4), zeros(4, 4, dtype=tg.float8_e4m3)), {}, "or float32, got float8_e4m3"),
        ((zeros(4, 4), zeros(4, 4)), {"precision": "exact"}, "there is no precision 'exact'"),
        ((zeros(4, 4), zeros(4, 4), zeros(4, 5)), {}, "'out' must have shape (4, 4) to fit 'a' and 'b', got (4, 5)"),
        ((zeros(4, 4), zeros(4, 4)), {"beta": 1.0}, "beta=1.0 scales 'out', which is missing"),
        ((zeros(4, 4), zeros(4, 4)), {"bias": zeros(5)}, "'bias' must have shape (4,) to fit 'b', got (5,)"),
        ((zeros(4, 4), zeros(4, 4)), {"activation": "tanh"}, "there is no activation 'tanh'"),
        (("a", zeros(4, 4)), {}, "'a' is not an array"),
    ],
)  # fmt: skip
def test_matmuls_refuse_invalid_arguments(arguments: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(tg.LaunchError) as caught:
        matmul(*arguments, **options)
    assert message in str(caught.value)


def test_a_matmul_result_that_overlaps_an_operand_is_refused() -> None:
    a = zeros(4, 4)
    with pytest.raises(tg.LaunchError, match="'out' shares memory with 'a'"):
        matmul(a, zeros(4, 4), a)


@pytest.mark.machine_code
def test_matmul_calls_with_arguments_of_different_layouts_are_correct() -> None:
    """The cached configuration of one call is not used for arguments with another layout."""
    wide_a, wide_b = integers(40, 80), integers(80, 60, seed=1)
    a, b = tg.array(wide_a), tg.array(wide_b)
    for _ in range(2):
        for x, y, transposed in (
            (a, b, False),
            (a[:, :40], b[:40], False),
            (a[::2], b, False),
            (a[:, 1:], b[1:], False),
            (b.transpose(), a.transpose(), False),
            (a, b.transpose(), True),
            (tg.array(wide_a, dtype=tg.float32), tg.array(wide_b, dtype=tg.float32), False),
        ):
            actual = matmul(x, y, transpose_b=transposed)
            expected = to_float64(x) @ (to_float64(y).T if transposed else to_float64(y))
            assert actual.dtype == x.dtype
            np.testing.assert_array_equal(
                to_float64(actual), expected.astype(np.float32).astype(x.numpy().dtype)
            )


@pytest.mark.machine_code
def test_later_calls_of_matmul_use_their_numbers_and_options() -> None:
    a, b = integers(8, 16), integers(16, 24, seed=1)
    x, y, unscaled = tg.array(a), tg.array(b), to_float64(a) @ to_float64(b)
    bias = tg.ones(24, dtype=tg.bfloat16)
    for alpha, beta in ((1, 0), (2.0, 0), (0.5, 0), (1, 1.0), (2.0, 3), (0.0, 0)):
        out = tg.ones((8, 24), dtype=tg.float32)
        matmul(x, y, out, alpha=alpha, beta=beta)
        np.testing.assert_array_equal(to_float64(out), alpha * unscaled + beta)
        if not beta:
            np.testing.assert_array_equal(
                to_float64(matmul(x, y, alpha=alpha, bias=bias)), alpha * unscaled + 1
            )
            relu = matmul(x, y, alpha=alpha, activation="relu")
            np.testing.assert_array_equal(to_float64(relu), np.maximum(alpha * unscaled, 0.0))


@pytest.mark.machine_code
@pytest.mark.parametrize("dtype", [tg.bfloat16, tg.float32, tg.float8_e4m3], ids=str)
def test_operands_of_matmuls_scaled_by_zero_are_not_read(dtype: Any) -> None:
    """The old output is not read either, and no gradient flows to the operands."""
    kind = tg.zeros(1, dtype=dtype).numpy().dtype
    a = tg.array(np.full((40, 16), np.nan).astype(kind), requires_grad=True)
    b = tg.array(np.full((16, 300), np.nan).astype(kind), requires_grad=True)
    bias = tg.ones(300, dtype=tg.float32)
    old = tg.full((40, 300), np.nan, dtype=tg.float32)
    np.testing.assert_array_equal(to_float64(matmul(a, b, old, alpha=0.0, bias=bias)), 1)
    np.testing.assert_array_equal(to_float64(matmul(a, b, old, alpha=-0.0, beta=2.5, bias=bias)), 3.5)
    with tg.Tape() as tape:
        result = matmul(a, b, alpha=0.0, bias=bias, activation="relu")
    tape.backward(grads={result: tg.ones((40, 300), dtype=result.dtype)})
    np.testing.assert_array_equal(to_float64(result), 1)
    assert not to_float64(a.grad).any() and not to_float64(b.grad).any()
    ones = tg.ones((40, 16), dtype=dtype)
    np.testing.assert_array_equal(
        to_float64(
            matmul(ones, tg.ones((16, 300), dtype=dtype), tg.full((40, 300), np.nan, dtype=tg.float32))
        ),
        16,
    )


@pytest.mark.machine_code
def test_each_call_of_matmul_checks_for_overlapping_memory() -> None:
    memory = tg.zeros(4096, dtype=tg.bfloat16)
    a, b, bias = (tg.zeros(shape, dtype=tg.bfloat16) for shape in ((16, 32), (32, 16), (16,)))
    disjoint, overlapping = memory[:256].reshape((16, 16)), memory[2048:2560].reshape((16, 32))
    for _ in range(2):
        assert matmul(a, b, disjoint, bias=bias) is disjoint
        for x, y, z in (
            (overlapping, b, memory[2304:2560].reshape((16, 16))),
            (a, overlapping.reshape((32, 16)), memory[2048:2304].reshape((16, 16))),
            (a, b, memory[:256].reshape((16, 16))),
        ):
            shared = memory[:16] if z.ptr == memory.ptr else bias
            with pytest.raises(tg.LaunchError, match="'out' shares memory with"):
                matmul(x, y, z, bias=shared)


@pytest.mark.machine_code
def test_the_cache_of_configurations_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operands, "MAX_PLANS", 3)
    gemm.plans.configs.clear()
    for n in range(1, 9):
        matmul(tg.zeros((n, 8)), tg.zeros((8, 8)))
    assert len(gemm.plans.configs) <= 3
    matmul(tg.zeros((9, 8)).numpy(), tg.zeros((8, 8)).numpy())
    assert len(gemm.plans.configs) <= 3
