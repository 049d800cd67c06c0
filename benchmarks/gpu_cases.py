"""Benchmark cases on a GPU against PyTorch, on PyTorch's tensors without copies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch

import tegula as tg
from benchmarks import gpu_kernels as kernels
from benchmarks.burst import bursts, comparison_row, relative_error
from benchmarks.measure import TOLERANCE, Row

SETS = 3
"""The number of sets of inputs that calls rotate over; each is larger than the L2 cache."""
COPIED = 1 << 26
ROWS, WIDTH = 16384, 4096
EPS = 1e-5
THREADS, OTHER_THREADS = 128, (256, 512)
"""The number of threads of blocks that work on rows, which is the fastest for 16-bit floats and not slower for other
types; and other numbers, whose rates are in the notes."""
DTYPES = {
    **{dtype: getattr(torch, dtype) for dtype in ("float32", "bfloat16", "float64")},
    "float8_e4m3": torch.float8_e4m3fn,
}


def random(shape: tuple[int, ...], dtype: str, seed: int) -> torch.Tensor:
    """Normally distributed numbers on the device."""
    generator = torch.Generator("cuda").manual_seed(seed)
    drawn_dtype = torch.float64 if dtype == "float64" else torch.float32
    return torch.randn(shape, generator=generator, device="cuda", dtype=drawn_dtype).to(DTYPES[dtype])


def array_of(t: torch.Tensor) -> Any:
    """A tg.array on the tensor's memory."""
    return tg.array(t, copy=False)


def poisoned(like: torch.Tensor) -> torch.Tensor:
    """Memory for a result, filled with NaN, so that the comparison detects missing elements."""
    return torch.full_like(like, float("nan"))


# Copies and elementwise ----------------------------------------------------------------------------------------------


def elementwise(
    title: str,
    make: Callable[[int], Any],
    dtype: str,
    tiles: tuple[int, ...],
    expected: Callable[..., torch.Tensor],
) -> Iterator[Row]:
    """An elementwise kernel with one input and one output; the peer copies the same bytes. `tiles`: elements per block
    of 256 threads, of which the first has a threshold; 0: the copy with one element per thread."""
    n = COPIED if dtype == "float32" else 2 * COPIED
    x = [random((n,), dtype, seed) for seed in range(SETS)]
    y = [poisoned(t) for t in x]
    arrays = [[array_of(a), array_of(b)] for a, b in zip(x, y, strict=True)]
    exact = expected(x[0].double())

    def run(kernel: Any, tile: int, k: int) -> None:
        if tile:
            tg.launch_tiled(kernel, n // tile, arrays[k], block_dim=256)
        else:
            tg.launch(kernel, n, arrays[k], block_dim=256)

    for tile in tiles:
        timed_run = partial(run, make(tile) if tile else kernels.copy_lanes, tile)
        y[0].fill_(float("nan"))
        timed_run(0)
        yield comparison_row(
            f"{title} {dtype}, {f'tile {tile}' if tile else 'one element per thread'}", timed_run,
            {"copy_": lambda k: y[k].copy_(x[k])}, SETS, relative_error(y[0], exact), dtype,
            0.95 if tile == tiles[0] else None, 2 * n * x[0].element_size() / 1e9, "GB/s",
        )  # fmt: skip


def chained(x: torch.Tensor) -> torch.Tensor:
    return ((x * 2 + 1) - 3) * x


def scaled_sum(tile: int) -> Iterator[Row]:
    """A scaled sum of two arrays; its rate is compared with the rate of a copy."""
    n, s = COPIED, 1.5
    a, b = ([random((n,), "float32", seed + 9 * variant) for seed in range(SETS)] for variant in range(2))
    c = [poisoned(t) for t in a]
    arrays = [[*map(array_of, arrays_of_set), s] for arrays_of_set in zip(a, b, c, strict=True)]
    kernel = kernels.scaled_sum_kernel(tile)

    def run(k: int) -> None:
        tg.launch_tiled(kernel, n // tile, arrays[k], block_dim=256)

    run(0)
    error = relative_error(c[0], a[0].double() * s + b[0].double())
    # A copy of 1.5 arrays moves the bytes of three arrays.
    source, target = (torch.empty(n * 3 // 2, device="cuda").normal_() for _ in range(2))
    yield comparison_row(
        f"scaled sum of two float32 arrays, tile {tile}", run,
        {"copy_": lambda k: target.copy_(source), "torch.add": lambda k: torch.add(b[k], a[k], alpha=s, out=c[k])},
        SETS, error, "float32", 0.95, 3 * n * 4 / 1e9, "GB/s",
    )  # fmt: skip


# Norms ---------------------------------------------------------------------------------------------------------------


def norm(norm_kind: str, dtype: str) -> Iterator[Row]:
    """A row norm, one row per block; the peer copies the same bytes."""
    x = [random((ROWS, WIDTH), dtype, seed) for seed in range(SETS)]
    y = [poisoned(t) for t in x]
    w, v = random((WIDTH,), dtype, 11), random((WIDTH,), dtype, 12)
    kernel, arguments, torch_function, expected = _norm(norm_kind, dtype, x, y, w, v)

    def run(k: int, threads: int = THREADS) -> None:
        tg.launch_tiled(kernel, ROWS, arguments[k], block_dim=threads)

    run(0)
    error = relative_error(y[0], expected(x[0].double(), w.double(), v.double()))
    peers = {
        "copy_": lambda k: y[k].copy_(x[k]),
        "torch": lambda k: torch_function(x[k], w, v),
        **{f"{threads} threads": partial(run, threads=threads) for threads in OTHER_THREADS},
    }
    yield comparison_row(
        f"{norm_kind} {dtype} {ROWS}x{WIDTH}", run, peers, SETS, error, dtype, 0.9,
        2 * ROWS * WIDTH * x[0].element_size() / 1e9, "GB/s",
    )  # fmt: skip


def _norm(
    norm_kind: str, dtype: str, x: list[torch.Tensor], y: list[torch.Tensor], w: torch.Tensor, v: torch.Tensor
) -> tuple[Any, list[list[Any]], Callable[..., Any], Callable[..., torch.Tensor]]:
    """The kernel, its arguments for each set, PyTorch's function, and the definition in PyTorch."""
    element, f = getattr(tg, dtype), torch.nn.functional
    pairs = [(array_of(a), array_of(b)) for a, b in zip(x, y, strict=True)]
    weight, bias = array_of(w), array_of(v)
    if norm_kind == "softmax":
        function: Callable[..., Any] = lambda t, w, v: f.softmax(t, 1)  # noqa: E731
        return kernels.softmax_kernel(element), [[a, b] for a, b in pairs], function, function
    if norm_kind == "layernorm":
        function = lambda t, w, v: f.layer_norm(t, (WIDTH,), w, v, EPS)  # noqa: E731
        arguments = [[a, weight, bias, b, EPS] for a, b in pairs]
        return kernels.layernorm_kernel(element), arguments, function, function
    arguments = [[a, weight, b, EPS] for a, b in pairs]
    return (
        kernels.rmsnorm_kernel(element),
        arguments,
        lambda t, w, v: f.rms_norm(t, (WIDTH,), w, EPS),
        lambda t, w, v: t * torch.rsqrt((t * t).mean(1, keepdim=True) + EPS) * w,
    )


# Sums ----------------------------------------------------------------------------------------------------------------


class SumOfSquares:
    """The sum of squares of float64 matrices, added to `result`."""

    def __init__(self, by_rows: bool) -> None:
        self.by_rows = by_rows
        self.x = [random((WIDTH, WIDTH), "float64", seed) for seed in range(SETS)]
        self.result = torch.zeros(1, device="cuda", dtype=torch.float64)
        self.arrays = [[array_of(t), array_of(self.result)] for t in self.x]

    def __call__(self, k: int, threads: int = THREADS) -> None:
        if self.by_rows:
            tg.launch_tiled(kernels.squares_by_rows, WIDTH, self.arrays[k], block_dim=threads)
        else:
            tg.launch(kernels.reduce_array_tile, (WIDTH, WIDTH), self.arrays[k])

    def zeroed(self, k: int) -> None:
        """Launch the kernel with the result set to 0 first."""
        self.result.zero_()
        self(k)

    def error(self) -> float:
        self.zeroed(0)
        return relative_error(self.result, (self.x[0] * self.x[0]).sum().reshape(1))

    def eager(self, k: int) -> torch.Tensor:
        return (self.x[k] * self.x[k]).sum()


SQUARES = f"sum of squares float64 {WIDTH}x{WIDTH}"


def squares_by_rows() -> Iterator[Row]:
    """The sum of squares by row tiles against eager PyTorch."""
    rows = SumOfSquares(by_rows=True)
    other_runs = {f"{threads} threads": partial(rows, threads=threads) for threads in OTHER_THREADS}
    peers = {"torch": rows.eager, "with the result zeroed": rows.zeroed, **other_runs}
    yield comparison_row(f"{SQUARES}, row tiles", rows, peers, SETS, rows.error(), "float64")


def squares_of_the_guide() -> Iterator[Row]:
    """The sum of squares with one element per thread and one atomic addition per block."""
    guide = SumOfSquares(by_rows=False)
    peers = {"torch": guide.eager, "with the result zeroed": guide.zeroed}
    yield comparison_row(
        f"{SQUARES}, the guide's kernel", guide, peers, SETS, guide.error(), "float64", max_ms=0.06
    )


def squares_compiled() -> Iterator[Row]:
    """The sum of squares by row tiles against compiled PyTorch."""
    rows = SumOfSquares(by_rows=True)
    compiled = torch.compile(lambda x: (x * x).sum(), dynamic=False)
    expected = rows.eager(0)
    error = relative_error(compiled(rows.x[0]), expected)
    peers = {"torch.compile": lambda k: compiled(rows.x[k])}
    yield comparison_row(
        f"{SQUARES}, row tiles, compiled peer", rows, peers, SETS, rows.error(),
        "float64", 1 / 1.05, note=f"error of the peer {error:.0e}",
    )  # fmt: skip


# Matmuls -----------------------------------------------------------------------------------------------------


def gemm(
    n: int, tile: tuple[int, int, int], stages: int, threads: int, threshold: float | None
) -> Iterator[Row]:
    """A matmul with bfloat16 operands and result against cuBLAS."""
    tm, tn, tk = tile
    a, b = ([random((n, n), "bfloat16", seed + 9 * variant) for seed in range(SETS)] for variant in range(2))
    c = [poisoned(t) for t in a]
    arrays = [[*map(array_of, arrays_of_set)] for arrays_of_set in zip(a, b, c, strict=True)]
    kernel = kernels.gemm_kernel(tm, tn, tk, stages)

    def run(k: int) -> None:
        tg.launch_tiled(kernel, (n // tm, n // tn), arrays[k], block_dim=threads)

    run(0)
    error = relative_error(c[0], a[0].double() @ b[0].double())
    yield comparison_row(
        f"gemm bfloat16 {n}, tile {tm}x{tn}x{tk}, {stages} stages, {threads} threads", run,
        {"torch.mm": lambda k: torch.mm(a[k], b[k], out=c[k])}, SETS, error, "bfloat16", threshold, 2 * n**3 / 1e12,
        "TFLOP/s",
    )  # fmt: skip


# The guide's pipelining ----------------------------------------------------------------------------------------------


def pipelining() -> Iterator[Row]:
    """One block that works on row after row, with sequential loads or with the next row loaded ahead."""
    x = [random((512, 256), "float32", seed) for seed in range(SETS)]
    y = [poisoned(t) for t in x]
    arrays = [[array_of(a), array_of(b)] for a, b in zip(x, y, strict=True)]
    x64 = x[0].double()
    expected = torch.tanh(torch.sqrt(torch.exp(-torch.abs(torch.sin(x64 * 1.1 + 0.1)) * 0.5) + 1.0) * 0.7)

    def run(kernel: Any, k: int) -> None:
        tg.launch_tiled(kernel, 1, arrays[k], block_dim=256)

    def error_of(call: Callable[[int], object]) -> float:
        y[0].fill_(float("nan"))
        call(0)
        torch.cuda.synchronize()
        return relative_error(y[0], expected)

    implementations = {
        kernel.name: partial(run, kernel) for kernel in (kernels.sequential, kernels.pipelined)
    }
    errors = {name: error_of(implementation) for name, implementation in implementations.items()}
    note, peers = "", warp_pipelining(x, y)
    if not peers:
        note = "Warp is not installed"
    yield comparison_row(
        "the guide's pipelining 512x256", implementations["pipelined"], {"sequential": implementations["sequential"]},
        SETS, max(errors.values()), "float32", note=note,
    )  # fmt: skip
    if not peers:
        return
    for name, peer in peers.items():
        if not error_of(peer) <= TOLERANCE["float32"]:
            raise AssertionError(f"{name} is wrong")
    speeds = bursts(peers, SETS, 5)
    fastest = min(peers, key=lambda name: speeds[name].median)
    for name, implementation in implementations.items():
        yield comparison_row(
            f"the guide's pipelining 512x256, {name}", implementation, {fastest: peers[fastest], **peers}, SETS,
            errors[name], "float32", 1.0,
        )  # fmt: skip


def warp_pipelining(
    x: Sequence[torch.Tensor], y: Sequence[torch.Tensor]
) -> dict[str, Callable[[int], object]]:
    """The same kernels in Warp; none if Warp is not installed."""
    try:
        from benchmarks import warp_kernels
    except ImportError:
        return {}
    result: dict[str, Callable[[int], object]] = {}
    for name, kernel in warp_kernels.KERNELS.items():
        launches = [warp_kernels.launch(kernel, a, b, 256) for a, b in zip(x, y, strict=True)]
        result[name] = lambda k, launches=launches: launches[k]()
    return result


CASES: dict[str, Callable[[], Iterator[Row]]] = {
    "copy float32": partial(
        elementwise, "copy", kernels.copy_kernel, "float32", (1024, 4096, 2048, 8192, 0), torch.clone
    ),
    "copy bfloat16": partial(
        elementwise, "copy", kernels.copy_kernel, "bfloat16", (2048, 8192, 4096), torch.clone
    ),
    **{
        f"four operations {dtype}": partial(
            elementwise,
            "four operations",
            partial(kernels.chain_kernel, dtype=getattr(tg, dtype)),
            dtype,
            tiles,
            chained,
        )
        for dtype, tiles in (("float32", (4096, 2048)), ("bfloat16", (8192, 4096)))
    },
    "scaled sum": partial(scaled_sum, 4096),
    **{
        f"{which} {dtype}": partial(norm, which, dtype)
        for which in ("softmax", "layernorm", "rmsnorm")
        for dtype in ("bfloat16", "float32")
    },
    "sum of squares, row tiles": squares_by_rows,
    "sum of squares, the guide's kernel": squares_of_the_guide,
    **{
        f"gemm bfloat16 {n}, tile {tile[1]} wide": partial(gemm, n, tile, stages, threads, threshold)
        for n in (4096, 8192)
        for tile, stages, threads, threshold in (
            ((128, 256, 64), 3, 256, 0.45),
            ((128, 128, 32), 4, 128, None),
        )
    },
    "pipelining": pipelining,
}
"""The cases by name, in order; each yields its rows."""

LAST: dict[str, Callable[[], Iterator[Row]]] = {"sum of squares, compiled peer": squares_compiled}
"""Cases that may take long and run last."""
