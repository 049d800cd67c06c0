"""CPU kernels against NumPy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import tegula as tg
from benchmarks import small_matrices
from benchmarks.measure import Row, compare, interleaved
from benchmarks.peak import PeakLoop

RNG = np.random.default_rng(1)


def random(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


# Matmuls -----------------------------------------------------------------------------------------------------


def gemm_kernel(tm: int, tn: int, tk: int, dtype: Any = tg.float32, operand: str = "plain") -> Any:
    """The guide's GEMM for a tile shape. `operand`: the operation on a tile of A between load and matmul."""

    @tg.kernel
    def gemm(A: tg.array2d[Any], B: tg.array2d[Any], C: tg.array2d[Any]):
        i, j = tg.tid()
        acc = tg.tile_zeros(shape=(tm, tn), dtype=dtype)
        for k in range((A.shape[1] + tk - 1) / tk):
            a = tg.tile_load(A, shape=(tm, tk), offset=(i * tm, k * tk))
            b = tg.tile_load(B, shape=(tk, tn), offset=(k * tk, j * tn))
            if tg.static(operand == "scaled"):
                tg.tile_matmul(a * 0.5, b, acc)
            elif tg.static(operand == "masked"):
                tg.tile_matmul(tg.where(a > 0.0, a, 0.0), b, acc)
            elif tg.static(operand == "cast"):
                tg.tile_matmul(tg.tile_astype(a, dtype), b, acc)
            else:
                tg.tile_matmul(a, b, acc)
        tg.tile_store(C, acc, offset=(i * tm, j * tn))

    return gemm


PREPARE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "plain": lambda a: a,
    "scaled": lambda a: a * 0.5,
    "masked": lambda a: np.where(a > 0, a, 0),
    "cast": lambda a: a,
}


def gemm_row(
    n: int, tile: tuple[int, int, int], threshold: float, operand: str = "plain", dtype: str = "float32"
) -> Row:
    t = np.dtype(dtype)
    a, b = random(n, n, dtype=t), random(n, n, dtype=t)
    if operand == "cast":
        a = a.astype(np.float16)
    expected = PREPARE[operand](a.astype(np.float64)) @ b.astype(np.float64)
    A, B, C = tg.array(a), tg.array(b), tg.zeros((n, n), dtype=getattr(tg, dtype))
    kernel = gemm_kernel(*tile, getattr(tg, dtype), operand)
    grid = (-(-n // tile[0]), -(-n // tile[1]))
    out = np.empty((n, n), t)
    return compare(
        f"gemm {dtype} {n} tile {'x'.join(map(str, tile))} {operand}",
        lambda: tg.launch_tiled(kernel, grid, inputs=[A, B], outputs=[C], block_dim=64),
        lambda: np.matmul(PREPARE[operand](a).astype(t, copy=False), b, out=out),
        C.numpy, expected, 2 * n**3 / 1e9, "GFLOP/s", "np.matmul", threshold, dtype,
    )  # fmt: skip


def peak_row() -> Row:
    """The 64-wide float32 matmul against the machine's peak rate of multiply-adds."""
    n, peak = 1024, PeakLoop("float")
    a, b = random(n, n), random(n, n)
    A, B, C = tg.array(a), tg.array(b), tg.zeros((n, n))
    kernel, grid = gemm_kernel(64, 64, 64), (n // 64, n // 64)

    def kernel_run() -> None:
        tg.launch_tiled(kernel, grid, inputs=[A, B], outputs=[C], block_dim=64)

    kernel_time, peer_time, _ = interleaved(kernel_run, peak)
    rate, ceiling = 2 * n**3 / 1e9 / kernel_time, peak.work / peer_time
    return Row(
        "gemm float32 1024 tile 64 of the peak", rate, "GFLOP/s", "FMA loop", ceiling, rate / ceiling, 0.85
    )


def small_tile_row() -> Row:
    row = gemm_row(1024, (8, 4, 8), 0.0)
    row.ratio, row.threshold = row.value / 20, 1.0
    row.name, row.peer, row.peer_value = "gemm float32 1024 tile 8x4x8 (guide)", "20 GFLOP/s", 20.0
    return row


def gradients_row() -> Row:
    """The backward launches of the 64-wide float32 matmul against the forward launch. Backward launches clear the
    gradient of the output; zeros take as long as other numbers here."""
    n, kernel = 1024, gemm_kernel(64, 64, 64)
    A, B, C, dA, dB, dC = (tg.array(random(n, n)) for _ in range(6))
    expected = dA.numpy() + dC.numpy().astype(np.float64) @ B.numpy().T
    grid = (n // 64, n // 64, 64)

    def kernel_run() -> None:
        tg.launch(kernel, grid, [A, B], [C], [dA, dB], [dC], adjoint=True, block_dim=64)

    kernel_run()
    error = float(np.linalg.norm(dA.numpy() - expected) / np.linalg.norm(expected))
    kernel_time, peer_time, ratio = interleaved(
        kernel_run, lambda: tg.launch(kernel, grid, [A, B, C], block_dim=64)
    )
    work = 2 * n**3 / 1e9
    return Row(
        "gradients of gemm float32 1024 tile 64", 2 * work / kernel_time, "GFLOP/s", "the forward launch",
        work / peer_time,
        ratio, 1 / 2.3, error, 54, f"{1 / ratio:.2f} times the forward launch",
    )  # fmt: skip


# Memory bound --------------------------------------------------------------------------------------------------------


@tg.kernel
def row_sum(a: tg.array2d[float], b: tg.array2d[float]):
    i = tg.tid()
    tg.tile_store(b[i], tg.tile_sum(tg.tile_load(a[i], 1024)))


@tg.kernel
def row_softmax(a: tg.array2d[float], b: tg.array2d[float]):
    i = tg.tid()
    t = tg.tile_load(a[i], 1024)
    e = tg.exp(t - tg.tile_max(t))
    tg.tile_store(b[i], e / tg.tile_sum(e))


@tg.kernel
def chain(a: tg.array[float], b: tg.array[float]):
    i = tg.tid()
    t = tg.tile_load(a, 4096, offset=i * 4096)
    tg.tile_store(b, ((t * 2.0 + 1.0) - 3.0) * t, offset=i * 4096)


def row_sum_row() -> Row:
    x, ones = random(16384, 1024), np.ones(1024, np.float32)
    a, b = tg.array(x), tg.zeros((16384, 1))
    return compare(
        "row sum 64 MiB", lambda: tg.launch_tiled(row_sum, 16384, inputs=[a], outputs=[b], block_dim=64),
        lambda: x @ ones, b.numpy, x.astype(np.float64).sum(1, keepdims=True), x.nbytes / 1e9, "GB/s", "X @ ones", 0.8,
    )  # fmt: skip


def softmax_row() -> Row:
    x = random(4096, 1024)
    a, b = tg.array(x), tg.zeros((4096, 1024))
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    out = np.empty_like(x)

    def peer() -> None:
        np.subtract(x, x.max(1, keepdims=True), out=out)
        np.exp(out, out=out)
        np.divide(out, out.sum(1, keepdims=True), out=out)

    row = compare(
        "row softmax 4096x1024", lambda: tg.launch_tiled(row_softmax, 4096, inputs=[a], outputs=[b], block_dim=64),
        peer, b.numpy, e / e.sum(1, keepdims=True), 1.0, "1/s", "NumPy with out=", None,
    )  # fmt: skip
    return Row(
        row.name,
        1e3 / row.value,
        "ms",
        row.peer,
        1e3 / (row.peer_value or 1),
        None,
        2.0,
        row.error,
        row.samples,
    )


def chain_row() -> Row:
    x = random(1 << 24)
    a, b, y = tg.array(x), tg.zeros(1 << 24), np.empty(1 << 24, np.float32)
    x64 = x.astype(np.float64)
    return compare(
        "four-operation chain 64 MiB",
        lambda: tg.launch_tiled(chain, (1 << 24) // 4096, inputs=[a], outputs=[b], block_dim=64),
        lambda: np.copyto(y, x), b.numpy, ((x64 * 2 + 1) - 3) * x64, 2 * x.nbytes / 1e9, "GB/s", "np.copyto", 0.7,
    )  # fmt: skip


# Lanes ---------------------------------------------------------------------------------------------------------------


@tg.kernel
def saxpy(a: float, x: tg.array[float], y: tg.array[float], out: tg.array[float]):
    i = tg.tid()
    if x[i] > 0.0:
        out[i] = a * tg.exp(x[i]) + y[i]
    else:
        out[i] = y[i]


@tg.kernel
def mandelbrot(out: tg.array2d[int]):
    row, column = tg.tid()
    x0 = float(column) / float(out.shape[1]) * 3.0 - 2.0
    y0 = float(row) / float(out.shape[0]) * 2.0 - 1.0
    x, y, n = x0, y0, 0
    while n < 256 and x * x + y * y < 4.0:
        x, y = x * x - y * y + x0, 2.0 * x * y + y0
        n += 1
    out[row, column] = n


def saxpy_row() -> Row:
    n = 1 << 24
    x, y = random(n), random(n)
    X, Y, out = tg.array(x), tg.array(y), tg.zeros(n)
    expected = np.where(x > 0, 1.5 * np.exp(x.astype(np.float64)) + y, y)
    return compare(
        "lanes: if, exp, multiply-add 64 MiB", lambda: tg.launch(saxpy, n, inputs=[1.5, X, Y], outputs=[out]),
        lambda: np.where(x > 0, np.float32(1.5) * np.exp(x) + y, y), out.numpy, expected, 3 * x.nbytes / 1e9, "GB/s",
        "NumPy", 3.0,
    )  # fmt: skip


def mandelbrot_row() -> Row:
    """A Mandelbrot kernel against the same kernel with blocks of two lanes, which run one after another."""
    shape = (768, 1024)
    out, two_lane_out = tg.zeros(shape, dtype=tg.int32), tg.zeros(shape, dtype=tg.int32)
    kernel_time, peer_time, ratio = interleaved(
        lambda: tg.launch(mandelbrot, shape, inputs=[out]),
        lambda: tg.launch(mandelbrot, shape, inputs=[two_lane_out], block_dim=2),
    )
    equal_fraction = float((out.numpy() == two_lane_out.numpy()).mean())
    return Row(
        "lanes: mandelbrot 1024x768", 1 / kernel_time, "1/s", "one lane at a time", 1 / peer_time, ratio, 3.0,
        1.0 - equal_fraction, 54,
    )  # fmt: skip


def fft_row(n: int, threshold: float) -> Row:
    """Fourier transforms of many rows against pocketfft, in CPU time, since that has one thread."""
    row_count = (1 << 19) // n
    x = random(row_count, n) + 1j * random(row_count, n)
    X, expected = tg.array(x), np.fft.fft(x.astype(np.complex128))
    return compare(
        f"Fourier transforms of {n} complex64", lambda: tg.kernels.fft(X), lambda: np.fft.fft(x),
        lambda: tg.kernels.fft(X).numpy(), np.stack([expected.real, expected.imag], -1), row_count / 1e6, "M/s",
        "np.fft.fft, CPU time", threshold, clock=time.process_time,
    )  # fmt: skip


def rows() -> Iterator[Row]:
    """All rows, with their thresholds."""
    yield gemm_row(1024, (64, 64, 64), 1.2)
    yield peak_row()
    for operand in ("scaled", "masked", "cast"):
        yield gemm_row(1024, (64, 64, 64), 0.9, operand)
    for tile in (32, 48, 96, 128):
        yield gemm_row(1024, (tile, tile, tile), 0.9)
    yield gemm_row(1000, (64, 64, 64), 0.9)
    yield gemm_row(1024, (64, 64, 64), 0.9, dtype="float64")
    yield small_tile_row()
    yield gradients_row()
    yield row_sum_row()
    yield softmax_row()
    yield chain_row()
    yield saxpy_row()
    yield mandelbrot_row()
    for n in (64, 256, 1024, 4096):
        yield fft_row(n, 1.5)
    yield fft_row(1000, 1.2)
    yield fft_row(1009, 1.0)
    yield from small_matrices.rows()
