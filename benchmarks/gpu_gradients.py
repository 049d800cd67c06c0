"""Gradients on a GPU: matmuls against cuBLAS, norms against copies of the same number of bytes.

A backward launch clears the gradient of its output, and multiplying zeros is faster than multiplying other numbers. The
gradient is therefore copied in before each launch, also for the peer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch

import tegula as tg
from benchmarks import gpu_kernels as kernels
from benchmarks.burst import comparison_row, relative_error
from benchmarks.gpu_cases import EPS, ROWS, SETS, THREADS, WIDTH, array_of, random
from benchmarks.measure import Row

TILE, BLOCK = (128, 256, 64), 256
"""The tile and the threads per block of the matmuls."""
WEIGHTS = {"softmax": 0, "layernorm": 2, "rmsnorm": 1}
"""The number of weights of each norm."""
COPIED, LOADED = 2, 5
"""The number of arrays that a copy of the gradient moves, and the number that the backward launch of a norm moves: the
launch reads the input and both gradients, and writes the gradients."""


def matmul(n: int) -> Iterator[Row]:
    """The gradients of both operands of a bfloat16 matmul."""
    a, b, g = (
        [random((n, n), "bfloat16", seed + 9 * set_index) for seed in range(SETS)] for set_index in range(3)
    )
    c, da, db, seeds = ([torch.zeros_like(t) for t in a] for _ in range(4))
    arrays = [[*map(array_of, arrays_of_set)] for arrays_of_set in zip(a, b, c, da, db, seeds, strict=True)]
    tm, tn, tk = TILE
    kernel = kernels.gemm_kernel(tm, tn, tk, 1)

    def run(k: int) -> None:
        seeds[k].copy_(g[k])
        x, y, z, dx, dy, dz = arrays[k]
        tg.launch(
            kernel, (n // tm, n // tn, BLOCK), [x, y], [z], [dx, dy], [dz], adjoint=True, block_dim=BLOCK
        )

    def peer(k: int) -> None:
        seeds[k].copy_(g[k])
        torch.mm(g[k], b[k].T, out=da[k])
        torch.mm(a[k].T, g[k], out=db[k])

    run(0)
    pairs = ((da[0], g[0].double() @ b[0].double().T), (db[0], a[0].double().T @ g[0].double()))
    error = max(relative_error(result, expected) for result, expected in pairs)
    yield comparison_row(
        f"gradients of a matmul, bfloat16 {n}, tile {tm}x{tn}x{tk}", run, {"two torch.mm": peer}, SETS, error,
        "bfloat16", 0.8, 4 * n**3 / 1e12, "TFLOP/s",
    )  # fmt: skip


def norm(norm_kind: str, dtype: str) -> Iterator[Row]:
    """The gradients of a row norm with one row per block; the peer copies the same bytes without the weights."""
    x, g = ([random((ROWS, WIDTH), dtype, seed + 9 * part) for seed in range(SETS)] for part in range(2))
    y, dx, seeds = ([torch.zeros_like(t) for t in x] for _ in range(3))
    weights = [random((WIDTH,), dtype, 11 + k) for k in range(WEIGHTS[norm_kind])]
    grads = [torch.zeros_like(w) for w in weights]
    element = getattr(tg, dtype)
    kernel = {
        "softmax": kernels.softmax_kernel,
        "layernorm": kernels.layernorm_kernel,
        "rmsnorm": kernels.rmsnorm_kernel,
    }[norm_kind](element)
    eps_arguments = [EPS] if weights else []
    ws, dws = [*map(array_of, weights)], [*map(array_of, grads)]
    arrays = [[*map(array_of, arrays_of_set)] for arrays_of_set in zip(x, y, dx, seeds, strict=True)]

    def run(k: int, threads: int = THREADS) -> None:
        seeds[k].copy_(g[k])
        a, b, da, db = arrays[k]
        tg.launch(
            kernel,
            (ROWS, threads),
            [a, *ws, b, *eps_arguments],
            [],
            [da, *dws, db],
            adjoint=True,
            block_dim=threads,
        )

    run(0)
    inputs64 = [t.double().requires_grad_() for t in (x[0], *weights)]
    _reference(norm_kind, *inputs64).backward(g[0].double())
    error = max(
        relative_error(gradient, t.grad) for gradient, t in zip((dx[0], *grads), inputs64, strict=True)
    )  # type: ignore[arg-type]
    moved = (COPIED + LOADED) * x[0].numel()
    source, target = (random((moved // 2,), dtype, 5 + k) for k in range(2))
    peers = {"copy_": lambda k: target.copy_(source), "256 threads": partial(run, threads=256)}
    yield comparison_row(
        f"gradients of {norm_kind} {dtype} {ROWS}x{WIDTH}", run, peers, SETS, error, dtype, 0.9,
        moved * x[0].element_size() / 1e9, "GB/s",
    )  # fmt: skip


def _reference(norm_kind: str, x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
    f = torch.nn.functional
    if norm_kind == "softmax":
        return f.softmax(x, 1)
    if norm_kind == "layernorm":
        return f.layer_norm(x, (WIDTH,), *weights, EPS)
    return x * torch.rsqrt((x * x).mean(1, keepdim=True) + EPS) * weights[0]


CASES: dict[str, Callable[[], Iterator[Row]]] = {
    **{f"gradients of a matmul {n}": partial(matmul, n) for n in (2048, 4096)},
    **{
        f"gradients of {which} {dtype}": partial(norm, which, dtype)
        for which in WEIGHTS
        for dtype in ("bfloat16", "float32")
    },
}
"""The cases by name, in order; each yields its row."""
