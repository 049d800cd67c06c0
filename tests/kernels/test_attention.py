"""Attention of the library compared with float64: lengths around multiples of the tile, causal or not, groups of
heads."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from kernel_arguments import assert_near, normal, to_float64

import tegula as tg
from support.campaigns import sampled
from tegula.kernels import attention
from tegula.kernels.operands import make_allocator

LENGTHS = [1, 127, 128, 129, 300]


def reference(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool, scale: float
) -> tuple[np.ndarray, np.ndarray]:
    """Results and logarithms of sums, by the definition."""
    group = q.shape[1] // k.shape[1]
    scores = to_float64(q) @ to_float64(k).repeat(group, 1).swapaxes(2, 3) * scale
    rows, keys = scores.shape[2:]
    if causal:
        visible = np.arange(keys)[None, :] <= np.arange(rows)[:, None] + keys - rows
        scores = np.where(visible, scores, -np.inf)
    top = np.maximum(scores.max(-1, keepdims=True, initial=-np.inf), -1e30)
    weights = np.exp(scores - top)
    total = weights.sum(-1, keepdims=True)
    result = weights @ to_float64(v).repeat(group, 1) / np.where(total > 0.0, total, 1.0)
    with np.errstate(divide="ignore"):
        return result, (np.log(total) + top)[..., 0]


def check(
    rows: int,
    keys: int,
    *,
    causal: bool = False,
    heads: tuple[int, int] = (2, 2),
    batch: int = 1,
    depth: int = 64,
    dtype: str = "bfloat16",
    scale: float | None = None,
) -> None:
    """Results, written to memory filled with NaN, and logarithms equal the definition's."""
    q = normal(batch, heads[0], rows, depth, dtype=dtype)
    k, v = (normal(batch, heads[1], keys, depth, dtype=dtype, seed=seed) for seed in (1, 2))
    out = tg.full(q.shape, float("nan"), dtype=getattr(tg, dtype))
    arrays = [tg.array(x) for x in (q, k, v)]
    result, lse = attention(*arrays, out, causal=causal, scale=scale, return_lse=True)
    assert result is out and lse.shape == q.shape[:3] and lse.dtype == tg.float32
    expected, logs = reference(q, k, v, causal, depth**-0.5 if scale is None else scale)
    assert_near(out, expected, dtype, scale=1.0)
    np.testing.assert_allclose(lse.numpy(), logs, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(to_float64(attention(*arrays, causal=causal, scale=scale)), to_float64(out))


@pytest.mark.machine_code
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("depth", [64, 128])
def test_attention_of_any_length_matches_float64(length: int, depth: int, causal: bool) -> None:
    check(length, length, depth=depth, causal=causal)


@pytest.mark.machine_code
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [159, 160, 161, 288, 319, 321])
def test_attention_around_tiles_of_160_keys_matches_float64(length: int, causal: bool) -> None:
    check(length, length, heads=(1, 1), depth=128, causal=causal)


@pytest.mark.machine_code
@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True])
def test_attention_over_many_tiles_matches_float64(causal: bool) -> None:
    check(1000, 1000, causal=causal, heads=(1, 1), depth=128)


@pytest.mark.machine_code
@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True])
def test_attention_of_the_last_queries_of_8192_keys_matches_float64(causal: bool) -> None:
    """The last queries of 8192 keys."""
    check(130, 8192, causal=causal, heads=(1, 1), depth=128)


@pytest.mark.machine_code
@pytest.mark.parametrize("keys", LENGTHS)
@pytest.mark.parametrize("rows", [1, 130])
def test_attention_over_any_number_of_keys_matches_float64(rows: int, keys: int) -> None:
    check(rows, keys)


@pytest.mark.machine_code
@pytest.mark.parametrize(
    ("rows", "keys"),
    [(130, 258), (100, 300), (300, 100), (300, 172), (129, 128), (1, 300), (5, 133), (256, 321), (200, 480)],
)
@sampled(2, "depth", [64, 128])
def test_causal_attention_of_the_last_query_reads_all_keys(rows: int, keys: int, depth: int) -> None:
    """The diagonal may miss the corners of tiles, and early queries may have no visible key."""
    check(rows, keys, causal=True, depth=depth)


@pytest.mark.machine_code
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("heads", "depth"), [((4, 1), 64), ((6, 2), 64), ((3, 3), 64), ((4, 2), 128)])
def test_attention_with_groups_of_heads_matches_float64(
    heads: tuple[int, int], depth: int, causal: bool
) -> None:
    check(140, 140, heads=heads, batch=2, causal=causal, depth=depth)


@pytest.mark.machine_code
@sampled(2, "depth", [64, 128])
def test_attention_of_float16_matches_float64(depth: int) -> None:
    check(150, 150, dtype="float16", depth=depth, causal=True)


@pytest.mark.machine_code
@pytest.mark.parametrize("scale", [1e-3, 1.0, 20.0])
def test_attention_with_any_scale_matches_float64(scale: float) -> None:
    check(40, 200, scale=scale)


@pytest.mark.machine_code
def test_attention_of_empty_arrays_is_correct() -> None:
    check(5, 0)
    check(5, 0, causal=True)
    check(0, 5)
    check(3, 3, batch=0)


@pytest.mark.machine_code
def test_attention_of_transposed_dimensions_matches_float64() -> None:
    """Views of (B, S, H, D)."""
    memory = [normal(2, 140, 3, 64, seed=seed) for seed in range(3)]
    q, k, v = (tg.array(x).transpose((0, 2, 1, 3)) for x in memory)
    out = tg.zeros((2, 140, 3, 64), dtype=tg.bfloat16)
    attention(q, k, v, out.transpose((0, 2, 1, 3)))
    expected, _ = reference(*(x.transpose(0, 2, 1, 3) for x in memory), False, 0.125)
    assert_near(out, expected.transpose(0, 2, 1, 3), "bfloat16")


@pytest.mark.machine_code
def test_attention_of_unaligned_memory_matches_float64() -> None:
    memory = [normal(1, 2, 130, 65, seed=seed) for seed in range(3)]
    actual = attention(*(tg.array(x)[:, :, :, :64] for x in memory))
    assert_near(actual, reference(*(x[..., :64] for x in memory), False, 0.125)[0], "bfloat16")


def zeros(*shape: int, dtype: Any = tg.bfloat16) -> tg.array:
    return tg.zeros(shape, dtype=dtype)


Q = zeros(1, 4, 8, 64)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((zeros(4, 8, 64), Q, Q), {}, "'q' must have 4 dimensions, got shape (4, 8, 64)"),
        ((Q, zeros(2, 4, 8, 64), Q), {}, "'k' must have shape (1, 4, 8, 64) to fit 'q' of shape (1, 4, 8, 64)"),
        ((Q, Q, zeros(1, 4, 9, 64)), {}, "'v' must have shape (1, 4, 8, 64) to fit 'k', got (1, 4, 9, 64)"),
        ((Q, zeros(1, 3, 8, 64), zeros(1, 3, 8, 64)), {}, "the 4 heads of 'q' are not a multiple of the 3 heads"),
        ((zeros(1, 4, 8, 80),) * 3, {}, "the last dimension must be 64 or 128, got 'q' of shape (1, 4, 8, 80)"),
        ((zeros(1, 4, 8, 64, dtype=tg.float32),) * 3, {}, "'q' must be of bfloat16 or float16, got float32"),
        ((Q, Q, zeros(1, 4, 8, 64, dtype=tg.float16)), {}, "of one dtype, got bfloat16, bfloat16 and float16"),
        ((Q, Q, Q, zeros(1, 4, 8, 64, dtype=tg.float16)), {}, "'out' must be of bfloat16, got float16"),
        ((Q, Q, Q, zeros(1, 4, 9, 64)), {}, "'out' must have shape (1, 4, 8, 64) to fit 'q', got (1, 4, 9, 64)"),
        ((Q, Q, Q, Q), {}, "'out' shares memory with 'q'"),
        ((Q, Q, Q), {"scale": 0.0}, "scale must be positive, got 0.0"),
    ],
)  # fmt: skip
def test_attention_refuses_invalid_arguments(arguments: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(tg.LaunchError) as caught:
        attention(*arguments, **options)
    assert message in str(caught.value)


@pytest.mark.machine_code
def test_later_calls_of_attention_use_their_scales_and_options() -> None:
    q, k, v = (normal(1, 2, 40, 64, seed=seed) for seed in range(3))
    arrays = [tg.array(x) for x in (q, k, v)]
    for scale in (None, 0.5, 2.0, None):
        for causal in (False, True):
            expected, logs = reference(q, k, v, causal, 0.125 if scale is None else scale)
            out, lse = attention(*arrays, causal=causal, scale=scale, return_lse=True)
            assert_near(out, expected, "bfloat16")
            np.testing.assert_allclose(lse.numpy(), logs, rtol=1e-5, atol=1e-5)
            assert_near(attention(*arrays, causal=causal, scale=scale), expected, "bfloat16")
    for _ in range(2):
        with pytest.raises(tg.LaunchError, match="scale must be positive"):
            attention(*arrays, scale=-1.0)
        out = tg.zeros((1, 2, 40, 64), dtype=tg.bfloat16)
        assert attention(*arrays, out) is out
        with pytest.raises(tg.LaunchError, match="'out' shares memory with 'v'"):
            attention(*arrays, arrays[2])


def test_attention_of_tensors_returns_a_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    class Tensor:
        pass

    class Subclass(Tensor):
        def new_empty(self, *shape: Any, dtype: str) -> Any:
            return *shape, dtype

    module = SimpleNamespace(Tensor=Tensor, float32="torch.float32", nn=SimpleNamespace(Parameter=Tensor))
    monkeypatch.setitem(sys.modules, "torch", module)
    cpu = tg.get_device("cpu")
    assert make_allocator((2, 3), tg.float32, Subclass(), cpu)() == ((2, 3), "torch.float32")
    assert isinstance(make_allocator((2, 3), tg.float32, Q, cpu)(), tg.array)
