"""The demo: four kernels on the available device, each checked against NumPy and timed with it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import tegula as tg
from tegula.dataclass import dataclass

TILE = 64
ROW = 1024
TILE_N = 256
N_ROWS = 512
TOLERANCE = 2e-6


@tg.kernel
def tile_gemm(A: tg.array2d[float], B: tg.array2d[float], C: tg.array2d[float]):
    """A matmul, one tile of the result for each block."""
    i, j = tg.tid()
    total = tg.tile_zeros(shape=(TILE, TILE), dtype=tg.float32)
    count = int(A.shape[1] / TILE)
    for k in range(count):
        a = tg.tile_load(A, shape=(TILE, TILE), offset=(i * TILE, k * TILE))
        b = tg.tile_load(B, shape=(TILE, TILE), offset=(k * TILE, j * TILE))
        tg.tile_matmul(a, b, total)
    tg.tile_store(C, total, offset=(i * TILE, j * TILE))


@tg.kernel
def row_softmax(x: tg.array2d[float], y: tg.array2d[float]):
    """The softmax of each row, one row for each block."""
    i = tg.tid()
    t = tg.tile_load(x[i], ROW)
    e = tg.exp(t - tg.tile_max(t))
    tg.tile_store(y[i], e / tg.tile_sum(e))


@tg.func
def activation(x: float):
    """The sine of an element, for the map over rows."""
    return tg.sin(x * 1.1 + 0.1)


@tg.func
def squash(x: float):
    """A bounded function of an element, for the map over rows."""
    return tg.tanh(tg.sqrt(tg.abs(x) + 1.0) * 0.7)


@tg.kernel
def pipelined(inp: tg.array2d[float], out: tg.array2d[float]):
    """Maps of rows in which the next row is loaded ahead."""
    a = tg.tile_load(inp, shape=(1, TILE_N), offset=(0, 0), storage="register")
    for i in range(1, N_ROWS):
        b = tg.tile_load(inp, shape=(1, TILE_N), offset=(i, 0), storage="register")
        a = tg.tile_map(activation, a)
        a = tg.tile_map(squash, a)
        tg.tile_store(out, a, offset=(i - 1, 0))
        a = b
    a = tg.tile_map(activation, a)
    a = tg.tile_map(squash, a)
    tg.tile_store(out, a, offset=(N_ROWS - 1, 0))


@tg.kernel
def sum_of_squares(a: tg.array2d[tg.float64], result: tg.array[tg.float64]):
    """The sum of the squares of all elements, by an atomic addition for each block."""
    i, j = tg.tid()
    value = a[i, j] * a[i, j]
    tg.tile_atomic_add(result, tg.tile_sum(tg.tile(value)))


@dataclass(frozen=True, slots=True)
class DemoJob:
    """A kernel with its data. `run_kernel` launches the kernel, which fills `result`; `peer` returns NumPy's result."""

    name: str
    size: str
    run_kernel: Callable[[], None]
    result: tg.array
    peer: Callable[[], np.ndarray]


@dataclass(frozen=True, slots=True)
class DemoOutcome:
    """The seconds of the median run, the seconds of NumPy, and the relative error (2-norm)."""

    job: DemoJob
    seconds: float
    peer_seconds: float
    error: float

    @property
    def right(self) -> bool:
        """Whether the error is within the tolerance."""
        return self.error <= TOLERANCE


def jobs() -> Iterator[DemoJob]:
    """The kernels of the demonstration with their inputs and expected results."""
    rng = np.random.default_rng(42)
    yield _gemm(rng)
    yield _softmax(rng)
    yield _pipelined(rng)
    yield _sum_of_squares(rng)


def _gemm(rng: np.random.Generator) -> DemoJob:
    n = 1024
    a, b = (rng.random((n, n), dtype=np.float32) for _ in range(2))
    A, B, C = tg.array(a), tg.array(b), tg.zeros((n, n))

    def run_kernel() -> None:
        tg.launch_tiled(tile_gemm, (n // TILE, n // TILE), inputs=[A, B], outputs=[C], block_dim=64)

    return DemoJob("tile_gemm", f"{n}x{n}x{n} float32", run_kernel, C, lambda: a @ b)


def _softmax(rng: np.random.Generator) -> DemoJob:
    rows = 4096
    x = rng.random((rows, ROW), dtype=np.float32)
    X, Y = tg.array(x), tg.zeros((rows, ROW))

    def run_kernel() -> None:
        tg.launch_tiled(row_softmax, rows, inputs=[X], outputs=[Y], block_dim=64)

    def peer() -> np.ndarray:
        e = np.exp(x - x.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    return DemoJob("row_softmax", f"{rows}x{ROW} float32", run_kernel, Y, peer)


def _pipelined(rng: np.random.Generator) -> DemoJob:
    x = rng.random((N_ROWS, TILE_N), dtype=np.float32)
    X, Y = tg.array(x), tg.zeros((N_ROWS, TILE_N))

    def run_kernel() -> None:
        tg.launch_tiled(pipelined, 1, inputs=[X], outputs=[Y], block_dim=TILE_N)

    def peer() -> np.ndarray:
        y = np.sin(x * np.float32(1.1) + np.float32(0.1))
        return np.tanh(np.sqrt(np.abs(y) + np.float32(1)) * np.float32(0.7))

    return DemoJob("pipelined", f"{N_ROWS}x{TILE_N} float32, one block", run_kernel, Y, peer)


def _sum_of_squares(rng: np.random.Generator) -> DemoJob:
    n = 2048
    x = rng.random((n, n))
    X, total = tg.array(x), tg.zeros(1, dtype=tg.float64)

    def run_kernel() -> None:
        total.zero_()
        tg.launch(sum_of_squares, (n, n), inputs=[X], outputs=[total])

    return DemoJob("sum_of_squares", f"{n}x{n} float64", run_kernel, total, lambda: np.array([(x * x).sum()]))


def measure(job: DemoJob, runs: int = 7) -> DemoOutcome:
    """Check the result once, then time Tegula and NumPy alternately."""
    job.run_kernel()
    result, expected = job.result.numpy().copy(), job.peer()
    error = float(np.linalg.norm(result - expected) / np.linalg.norm(expected))
    kernel_times, peer_times = [], []
    for _ in range(runs):
        kernel_times.append(_seconds(job.run_kernel))
        peer_times.append(_seconds(job.peer))
    return DemoOutcome(job, statistics.median(kernel_times), statistics.median(peer_times), error)


def _seconds(f: Callable[[], object]) -> float:
    """The time of a call and, on a GPU, of the work that the call starts."""
    start = time.perf_counter()
    f()
    tg.synchronize()
    return time.perf_counter() - start


def run(console: Console) -> int:
    """Run all jobs, on a GPU if there is one, and print a table. The exit status: 1 if a result was wrong."""
    with tg.ScopedDevice(tg.get_preferred_device()):
        return _run(console)


def _run(console: Console) -> int:
    outcomes: list[DemoOutcome] = []
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task(f"kernels on {tg.get_device()}", total=4)
        for job in jobs():
            progress.update(task, description=job.name)
            outcomes.append(measure(job))
            progress.advance(task)
    table = Table(
        "kernel", "size", "time", "against NumPy", "relative error", title=f"Tegula on {tg.get_device()}"
    )
    for o in outcomes:
        verdict = f"{o.error:.1e}" if o.right else f"[red]{o.error:.1e} WRONG[/red]"
        speed = f"{o.peer_seconds / o.seconds:.2f} x as fast"
        table.add_row(o.job.name, o.job.size, f"{o.seconds * 1e3:.2f} ms", speed, verdict)
    console.print(table)
    return 0 if all(o.right for o in outcomes) else 1
