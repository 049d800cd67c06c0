"""Automatic schedules on a GPU: kernels without explicit roles, against cuBLAS and cuDNN through PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import tegula as tg
from benchmarks import automatic_kernels as kernels
from benchmarks.burst import comparison_row, relative_error
from benchmarks.gpu_cases import SETS, array_of, poisoned, random
from benchmarks.gpu_library import attention_in_float64
from benchmarks.measure import Row

TILE = (128, 256)
SIZES = ((4096, 4096, 4096), (8192, 8192, 8192), (8192, 8192, 1024), (16384, 4096, 4096))
"""The values of M, N and K."""
RAGGED = ((4001, 4104, 4040), (8191, 8200, 1032))
"""Sizes that are not multiples of the tiles; rows are odd multiples of 16 bytes."""
UNALIGNED = ((4096, 4098, 4098),)
"""Sizes whose rows are not aligned for tensor maps."""
ATTENTIONS = {"8k": (16, 8192), "2k": (64, 2048)}
"""The number of heads and their length."""
Activation = Callable[[torch.Tensor], torch.Tensor]


def matmul(
    m: int, n: int, k: int, title: str, kernel: Any, threshold: float | None, after: Activation | None = None
) -> Iterator[Row]:
    """A matmul with bfloat16 operands; the peer's result has the same type."""
    transposed, has_float32_result = kernel is kernels.int8_weights, kernel is kernels.tile_gemm
    is_converted, shape = transposed or kernel is kernels.CONVERTED, (n, k) if transposed else (k, n)
    a = [random((m, k), "bfloat16", seed) for seed in range(SETS)]
    b = [_right_operand(shape, seed + 9, is_converted) for seed in range(SETS)]
    right_operands = [t.to(torch.bfloat16).T if transposed else t.to(torch.bfloat16) for t in b]
    dtype = torch.float32 if has_float32_result else torch.bfloat16
    c = [torch.full((m, n), float("nan"), device="cuda", dtype=dtype) for _ in range(SETS)]
    d = [torch.empty((m, n), device="cuda", dtype=dtype) for _ in range(SETS)]
    arrays = [[*map(array_of, arrays_of_set)] for arrays_of_set in zip(a, b, c, strict=True)]
    grid = (math.ceil(m / TILE[0]), math.ceil(n / TILE[1]))

    def run(i: int) -> None:
        tg.launch_tiled(kernel, grid, arrays[i], block_dim=kernels.THREADS)

    def peer(i: int) -> torch.Tensor:
        if has_float32_result:
            return torch.mm(a[i], right_operands[i], out_dtype=dtype, out=d[i])
        result = torch.matmul(a[i], right_operands[i], out=d[i])
        return result if after is None else after(result)

    run(0)
    expected = a[0].double() @ right_operands[0].double()
    error = relative_error(c[0], expected if after is None else after(expected))
    name = "torch.mm to float32" if has_float32_result else "torch.matmul"
    name += "" if after is None else " and activation"
    yield comparison_row(
        matmul_name(m, n, k, title), run, {name: peer}, SETS, error, "bfloat16", threshold,
        2 * m * n * k / 1e12, "TFLOP/s", note=scheduled(kernel),
    )  # fmt: skip


def _right_operand(shape: tuple[int, int], seed: int, integral: bool) -> torch.Tensor:
    if not integral:
        return random(shape, "bfloat16", seed)
    return (random(shape, "float32", seed) * 20).clamp(-127, 127).to(torch.int8)


def scheduled(kernel: Any) -> str:
    """The line of `explain` about the automatic schedule of the form that was launched last."""
    lines = kernel.explain().splitlines()
    return next(line for line in lines if line.startswith("automatic schedule"))


def matmul_name(m: int, n: int, k: int, title: str) -> str:
    return f"automatic {title} bfloat16 {m}x{n}x{k}"


def attention(size: str, exact: bool, causal: bool, threshold: float | None) -> Iterator[Row]:
    """Attention with heads of 128, with or without a causal mask."""
    heads, length = ATTENTIONS[size]
    shape = (heads, length, 128)
    q, k, v = (
        [random(shape, "bfloat16", seed + 9 * set_index) for seed in range(SETS)] for set_index in range(3)
    )
    o = [poisoned(t) for t in q]
    scale = 1 / math.sqrt(128) * (1 if exact else math.log2(math.e))
    unmasked, masked = (
        (kernels.EXACT_ATTENTION, kernels.EXACT_CAUSAL) if exact else (kernels.ATTENTION, kernels.CAUSAL)
    )
    kernel = masked if causal else unmasked
    arrays = [[*map(array_of, arrays_of_set)] for arrays_of_set in zip(q, k, v, o, strict=True)]

    def run(i: int) -> None:
        tg.launch_tiled(kernel, (heads, length // 128), [*arrays[i], scale], block_dim=kernels.THREADS)

    def peer(i: int) -> torch.Tensor:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return scaled_dot_product_attention(q[i][None], k[i][None], v[i][None], is_causal=causal)

    run(0)
    error = max(
        relative_error(o[0][h], attention_in_float64(q[0][h], k[0][h], v[0][h], causal)) for h in (0, -1)
    )
    yield comparison_row(
        attention_name(size, exact, causal), run, {"cuDNN": peer}, SETS, error, "bfloat16", threshold,
        (2 if causal else 4) * heads * length**2 * 128 / 1e12, "TFLOP/s", note=scheduled(kernel),
    )  # fmt: skip


def attention_name(size: str, exact: bool, causal: bool) -> str:
    return f"automatic attention bfloat16 {size}{' causal' if causal else ''}, {'tg.exp' if exact else 'tg.fast.exp2'}"


MATMULS: tuple[tuple[str, Any, float | None, Activation | None], ...] = (
    ("tile_gemm, float32 result", kernels.tile_gemm, 0.95, None),
    ("matmul", kernels.PLAIN, 0.97, None),
    ("one tile ahead", kernels.prefetching_gemm, 0.95, None),
    ("matmul and relu", kernels.RELU, 0.95, torch.relu),
    ("matmul and silu", kernels.SILU, 0.93, torch.nn.functional.silu),
    ("matmul with int8", kernels.CONVERTED, 0.8, None),
    ("matmul with int8 in rows along K", kernels.int8_weights, 0.65, None),
)
CASES: dict[str, Callable[[], Iterator[Row]]] = {
    **{
        matmul_name(*shape, what): partial(matmul, *shape, what, kernel, threshold, after)
        for what, kernel, threshold, after in MATMULS
        for shape in SIZES
    },
    **{
        matmul_name(*shape, what): partial(matmul, *shape, what, kernels.PLAIN, threshold)
        for what, shapes, threshold in (
            ("ragged matmul", RAGGED, 0.85),
            ("unaligned matmul", UNALIGNED, None),
        )
        for shape in shapes
    },
    **{
        attention_name(size, exact, causal): partial(attention, size, exact, causal, 0.6)
        for size in ATTENTIONS
        for exact in (False, True)
        for causal in (False, True)
    },
}
"""The cases by name, in order; each yields its row."""
