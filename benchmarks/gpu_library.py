"""Kernels of the library on a GPU: matmuls against cuBLAS, attention against cuDNN, both through PyTorch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import tegula as tg
from benchmarks.burst import bursts, comparison_row, relative_error
from benchmarks.gpu_cases import SETS, array_of, poisoned, random
from benchmarks.measure import Row
from tegula import kernels
from tegula.kernels import gemm
from tegula.kernels.operands import processors
from tegula.kernels.shapes import MIN_STEPS, TENSOR_CORES, DeviceRates, Tile, choose

MATMULS = (
    (4096, 4096, 4096),
    (8192, 8192, 8192),
    (8192, 8192, 1024),
    (16384, 4096, 4096),
    (4096, 14336, 4096),
)
"""The values of M, N and K."""
SMALL_TILE_SHAPES = (
    (1024, 1024, 1024),
    (2048, 2048, 2048),
    (512, 4096, 4096),
    (128, 4096, 4096),
    (64, 8192, 8192),
    (16, 8192, 8192),
)
"""Shapes for which large tiles alone are slow; the threshold is on the geometric mean of their ratios."""
RAGGED = ((4000, 4040, 4008), (8200, 8200, 1032), (5000, 5000, 5000), (4004, 4004, 4004))
"""Shapes that are not multiples of tiles; the rows of the last are not multiples of 16 bytes either."""
SPLIT_K_SHAPES = ((512, 512, 8192), (16, 4096, 16384), (256, 256, 65536))
"""Shapes with few tiles and many steps along K."""
ATTENTIONS = {"2k": (4, 16, 2048, 0.95), "8k": (1, 16, 8192, 1.0), "16k": (1, 8, 16384, 1.0)}
"""The batch, heads, length and the minimum ratio to cuDNN's speed."""
DEPTH = 128


def matmul(m: int, n: int, k: int, transposed: bool, threshold: float | None = 0.98) -> Iterator[Row]:
    """A matmul with bfloat16 operands and result, with B in row-major order or transposed in memory."""
    a = [random((m, k), "bfloat16", seed) for seed in range(SETS)]
    b = [random((n, k) if transposed else (k, n), "bfloat16", seed + 9) for seed in range(SETS)]
    c = [torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16) for _ in range(SETS)]
    arrays = [[*map(array_of, arrays_of_set)] for arrays_of_set in zip(a, b, c, strict=True)]
    right = [t.T if transposed else t for t in b]

    def run(i: int) -> None:
        kernels.matmul(*arrays[i], transpose_b=transposed)

    run(0)
    error = relative_error(c[0], a[0].double() @ right[0].double())
    yield comparison_row(
        matmul_name(m, n, k, transposed), run,
        {"torch.matmul": lambda i: torch.matmul(a[i], right[i], out=c[i])}, SETS, error, "bfloat16", threshold,
        2 * m * n * k / 1e12, "TFLOP/s",
    )  # fmt: skip


def narrow_matmul(n: int, transposed: bool) -> Iterator[Row]:
    """A matmul with float8_e4m3 operands and a bfloat16 result. The peer accumulates in the tensor cores, as our
    kernels do; the note has its speed with accumulation in registers. Both need B with K along rows, and transpose it
    otherwise."""
    a, b = (
        [random((n, n), "float8_e4m3", seed + 9 * variant) for seed in range(SETS)] for variant in range(2)
    )
    c = [torch.full((n, n), float("nan"), device="cuda", dtype=torch.bfloat16) for _ in range(SETS)]
    arrays = [[*map(array_of, arrays_of_set)] for arrays_of_set in zip(a, b, c, strict=True)]
    unit_scale = torch.ones((), device="cuda")

    def run(i: int) -> None:
        kernels.matmul(*arrays[i], transpose_b=transposed)

    def peer(fast: bool, i: int) -> None:
        right = b[i].T if transposed else b[i].T.contiguous().T
        torch._scaled_mm(
            a[i], right, unit_scale, unit_scale, out_dtype=torch.bfloat16, use_fast_accum=fast, out=c[i]
        )  # fmt: skip

    exact = a[0].double() @ (b[0].T if transposed else b[0]).double()
    run(0)
    error = relative_error(c[0], exact)
    peers = {"cuBLAS": partial(peer, True), "exact sums": partial(peer, False)}
    peer_errors = []
    for run_peer in peers.values():
        run_peer(0)
        peer_errors.append(f"{relative_error(c[0], exact):.2e}")
    yield comparison_row(
        matmul_name(n, n, n, transposed, "float8_e4m3"), run, peers, SETS, error, "bfloat16",
        0.93 if transposed else None, 2 * n**3 / 1e12, "TFLOP/s", note=f"errors of the peers {', '.join(peer_errors)}",
    )  # fmt: skip


def float32_matmul(precision: str, n: int, transposed: bool) -> Iterator[Row]:
    """A float32 matmul. With "tf32" on tensor cores, our kernel needs B with K along rows, and transposes it
    otherwise."""
    uses_tf32 = precision == "tf32"
    a, b = ([random((n, n), "float32", seed + 9 * variant) for seed in range(SETS)] for variant in range(2))
    c = [poisoned(t) for t in a]
    arrays = [[*map(array_of, arrays_of_set)] for arrays_of_set in zip(a, b, c, strict=True)]
    right = [t.T if transposed else t for t in b]

    def run(i: int) -> None:
        kernels.matmul(*arrays[i], transpose_b=transposed, precision=precision)

    run(0)
    error = relative_error(c[0], a[0].double() @ right[0].double())
    previous = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = uses_tf32
    try:
        yield comparison_row(
            matmul_name(n, n, n, transposed, "tf32" if uses_tf32 else "float32"), run,
            {"torch.matmul": lambda i: torch.matmul(a[i], right[i], out=c[i])}, SETS, error,
            "tf32" if uses_tf32 else "float32", 0.93 if uses_tf32 and transposed else None, 2 * n**3 / 1e12, "TFLOP/s",
        )  # fmt: skip
    finally:
        torch.backends.cuda.matmul.allow_tf32 = previous


def small_matmuls() -> Iterator[Row]:
    """The rows of several shapes, then a row with the geometric mean of their ratios."""
    rows = [row for shape in SMALL_TILE_SHAPES for row in matmul(*shape, False, None)]
    yield from rows
    mean = math.exp(sum(math.log(row.ratio or math.nan) for row in rows) / len(rows))
    yield Row(
        "library matmul bfloat16, small and thin, geometric mean",
        mean,
        "of cuBLAS",
        ratio=mean,
        threshold=0.98,
    )


def chosen_tile(m: int, n: int, k: int) -> Iterator[Row]:
    """The tile that is chosen by the estimate for a shape, against the fastest of all tiles with all numbers of
    splits."""
    a, b = random((m, k), "bfloat16", 0), random((k, n), "bfloat16", 9)
    c = torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)
    arrays = [*map(array_of, (a, b, c))]

    def run(tile: Tile | None, i: int) -> None:
        kernels.matmul(*arrays, tile=tile)

    run(None, 0)
    error = relative_error(c, a.double() @ b.double())
    peers = {
        f"{tile.rows}x{tile.columns}/{splits}": partial(run, tile.with_splits(splits))
        for tile in TENSOR_CORES
        for splits in (1, 2, 4)
        if k >= splits * MIN_STEPS * tile.depth
    }
    first = bursts(peers, 1, 3)
    order = sorted(peers, key=lambda name: first[name].median)
    chosen = choose(m, n, k, 2.0, 1.0, TENSOR_CORES, DeviceRates(processors(tg.get_device("cuda:0"))))
    yield comparison_row(
        chosen_tile_name(m, n, k), partial(run, None),
        {name: peers[name] for name in order[:4]}, 1, error, "bfloat16", 0.97, 2 * m * n * k / 1e12, "TFLOP/s",
        note=f"chosen: {chosen.rows}x{chosen.columns}/{chosen.splits}",
    )  # fmt: skip


def chosen_tile_name(m: int, n: int, k: int) -> str:
    return f"ways to cut bfloat16 {m}x{n}x{k}"


def tuned_matmul() -> Iterator[Row]:
    """`tg.autotune` over the tiles against the tile that is chosen by the estimate; the first launch tunes."""
    m = n = k = 2048
    a, b = random((m, k), "bfloat16", 0), random((k, n), "bfloat16", 9)
    c = [torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16) for _ in range(2)]
    left, right, *outputs = map(array_of, (a, b, *c))

    def make(set_index: int) -> Any:
        return gemm.matmul_kernel(tg.bfloat16, TENSOR_CORES[set_index], False, gemm.Epilogue(tg.bfloat16))

    kernel = tg.autotune(which=list(range(len(TENSOR_CORES))))(make)

    def run(i: int) -> None:
        tg.launch_tiled(kernel, 132, [left, right, 0, 1.0, 0.0], [outputs[0]])

    start = time.perf_counter()
    run(0)
    spent = time.perf_counter() - start
    error = relative_error(c[0], a.double() @ b.double())
    report = kernel.reports[0]
    tile = TENSOR_CORES[report.outcomes[report.chosen].candidate.values["which"]]
    yield comparison_row(
        f"tg.autotune over tiles, bfloat16 {m}x{n}x{k}", run,
        {"kernels.matmul": lambda i: kernels.matmul(left, right, outputs[1])}, 1, error, "bfloat16", 0.97,
        2 * m * n * k / 1e12, "TFLOP/s",
        note=f"chosen: {tile.rows}x{tile.columns}, {len(report.dropped)} dropped, tuned in {spent:.1f} s",
    )  # fmt: skip


def matmul_name(m: int, n: int, k: int, transposed: bool, dtype: str = "bfloat16") -> str:
    return f"library matmul {dtype} {m}x{n}x{k}{', B transposed' if transposed else ''}"


def attention(size: str, causal: bool, depth: int = DEPTH, groups: int = 1) -> Iterator[Row]:
    """Attention in bfloat16; a causal mask halves the counted work. `groups`: heads that share their keys and
    values."""
    batch, heads, length, threshold = ATTENTIONS[size]
    shapes = ((batch, heads, length, depth), *[(batch, heads // groups, length, depth)] * 2)
    q, k, v = (
        [random(shape, "bfloat16", seed + 9 * tensor_index) for seed in range(SETS)]
        for tensor_index, shape in enumerate(shapes)
    )
    o = [poisoned(t) for t in q]
    arrays = [[*map(array_of, arrays_of_set)] for arrays_of_set in zip(q, k, v, o, strict=True)]

    def run(i: int) -> None:
        kernels.attention(*arrays[i], causal=causal)

    def peer(i: int) -> torch.Tensor:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return scaled_dot_product_attention(q[i], k[i], v[i], is_causal=causal, enable_gqa=groups > 1)

    run(0)
    error = max(
        relative_error(
            o[0][-1, h],
            attention_in_float64(q[0][-1, h], k[0][-1, h // groups], v[0][-1, h // groups], causal),
        )
        for h in (0, heads - 1)
    )
    has_threshold = depth == DEPTH and groups == 1
    yield comparison_row(
        attention_name(size, causal, depth, groups), run, {"cuDNN": peer}, SETS, error, "bfloat16",
        threshold if has_threshold else None, 4 * batch * heads * length**2 * depth / (2 if causal else 1) / 1e12,
        "TFLOP/s",
    )  # fmt: skip


def attention_in_float64(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    """Attention of one head in float64, computed by its definition."""
    scores = q.double() @ k.double().T / q.shape[1] ** 0.5
    if causal:
        scores.masked_fill_(torch.ones_like(scores, dtype=torch.bool).triu_(1), float("-inf"))
    return torch.softmax(scores, 1) @ v.double()


def attention_name(size: str, causal: bool, depth: int = DEPTH, groups: int = 1) -> str:
    batch, heads, *_ = ATTENTIONS[size]
    shared = f", {heads // groups} of keys" if groups > 1 else ""
    title = f"{size}{' causal' if causal else ''}, batch {batch}, {heads} heads of {depth}{shared}"
    return f"library attention bfloat16 {title}"


CASES: dict[str, Callable[[], Iterator[Row]]] = {
    **{
        matmul_name(*shape, transposed): partial(matmul, *shape, transposed)
        for shape in MATMULS
        for transposed in (False, True)
    },
    **{
        matmul_name(n, n, n, transposed, dtype): partial(case, n, transposed)
        for dtype, case, n in (
            ("float8_e4m3", narrow_matmul, 8192),
            ("tf32", partial(float32_matmul, "tf32"), 4096),
            ("tf32", partial(float32_matmul, "tf32"), 8192),
        )
        for transposed in (True, False)
    },
    matmul_name(4096, 4096, 4096, False, "float32"): partial(float32_matmul, "default", 4096, False),
    "library matmul bfloat16, small and thin": small_matmuls,
    **{
        matmul_name(*shape, False): partial(matmul, *shape, False, threshold)
        for shapes, threshold in ((RAGGED, 0.85), (SPLIT_K_SHAPES, None))
        for shape in shapes
    },
    "library tg.autotune over tiles": tuned_matmul,
    **{
        attention_name(size, causal): partial(attention, size, causal)
        for size in ATTENTIONS
        for causal in (False, True)
    },
    **{attention_name("8k", causal, 64): partial(attention, "8k", causal, 64) for causal in (False, True)},
    attention_name("8k", True, groups=4): partial(attention, "8k", True, groups=4),
}
"""The cases by name, in order; each yields its row."""

LAST: dict[str, Callable[[], Iterator[Row]]] = {
    chosen_tile_name(*shape): partial(chosen_tile, *shape) for shape in (*SMALL_TILE_SHAPES, *SPLIT_K_SHAPES)
}
"""Cases that compile many kernels and run last."""
