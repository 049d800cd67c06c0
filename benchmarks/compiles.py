"""Wall time of first calls of batched linear algebra, transforms and sorts in a new process with an empty disk cache.

The time begins before `import tegula`, after the import of NumPy, and on a GPU after the creation of the driver's
context, which every program needs; it ends when the call returns. NumPy's BLAS has one thread: its threads are busy for
a while after the import, and slow the measured one down."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.measure import Row, fresh_process

SMALL, FUSED, LARGE = 300.0, 600.0, 1200.0
"""The thresholds in ms: matrices of up to 32 x 32, single transforms and sorts; transforms fused with other work;
larger matrices."""
CONTEXT = """
import ctypes
driver = ctypes.CDLL("libcuda.so.1")
device, context = ctypes.c_int(), ctypes.c_void_p()
assert driver.cuInit(0) == 0
assert driver.cuDeviceGet(ctypes.byref(device), 0) == 0
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
assert driver.cuCtxSetCurrent(context) == 0
"""
"""Creates the driver's context before the clock starts, because every program on a GPU needs this time."""
_CODE = """
import time
import numpy as np
batch, n = 64, {n}
numbers = np.random.default_rng(0).standard_normal({shape}).astype(np.float32)
{numbers}
start = time.perf_counter()
import tegula as tg
x = tg.array(numbers, dtype=tg.{dtype}, device="{device}")
{call}
print((time.perf_counter() - start) * 1e3)
"""
_FUSED = """
@tg.func(source='''
def weighted(z: tg.vec2f, weight: float):
    return z * weight
''')
def weighted(z: tg.vec2f, weight: float):
    pass

@tg.kernel(source='''
def convolve(x: tg.array2d[tg.vec2f], weights: tg.array1d[float], y: tg.array2d[tg.vec2f]):
    i = tg.tid()
    t = tg.tile_load(x[i], shape={n})
    tg.tile_fft(t)
    t = tg.tile_map(weighted, t, tg.tile_load(weights, shape={n}))
    tg.tile_ifft(t)
    tg.tile_store(y[i], t)
''')
def convolve(x: tg.array2d[tg.vec2f], weights: tg.array1d[float], y: tg.array2d[tg.vec2f]):
    pass

weights, y = tg.zeros(n, device=x.device), tg.zeros_like(x)
tg.launch_tiled(convolve, batch, [x, weights], [y], block_dim={threads})
"""


class _Input(NamedTuple):
    """The array of a first call: its shape, a statement that changes its numbers, and the type of its elements."""

    shape: str
    numbers: str
    dtype: str


_SPD = "numbers = numbers @ numbers.transpose(0, 2, 1) + n * np.eye(n, dtype=np.float32)"
_MATRICES = _Input("(batch, n, n)", _SPD, "float32")
_PAIRS = _Input("(batch, n, 2)", "", "vec2f")
_ROWS = _Input("(batch, n)", "", "float32")
_SIZES = (8, 16, 32, 64)


class FirstCall(NamedTuple):
    """First calls of one function. `sizes`: rows and columns of matrices, or elements of rows."""

    code: str
    input: _Input
    sizes: tuple[int, ...]

    def threshold(self, n: int) -> float:
        """The limit for a size in ms."""
        return FUSED if self.code == _FUSED else LARGE if self.input is _MATRICES and n > 32 else SMALL


CALLS = {
    "cholesky": FirstCall("tg.kernels.cholesky(x)", _MATRICES, _SIZES),
    "solve": FirstCall("tg.kernels.solve(x, x)", _MATRICES, _SIZES),
    "lu": FirstCall("tg.kernels.lu(x)", _MATRICES, _SIZES),
    "qr": FirstCall("tg.kernels.qr(x)", _MATRICES, _SIZES),
    "eigh": FirstCall("tg.kernels.eigh(x)", _MATRICES, _SIZES),
    "svd": FirstCall("tg.kernels.svd(x)", _MATRICES, _SIZES),
    "inverse": FirstCall("tg.kernels.inverse(x)", _MATRICES, _SIZES),
    "FFT": FirstCall("tg.kernels.fft(x)", _PAIRS, (64, 256, 1000, 1009, 1024, 1155, 4096, 8192)),
    "FFT, map, inverse FFT": FirstCall(_FUSED, _PAIRS, (1024, 4096)),
    "sort": FirstCall("tg.kernels.sort(x)", _ROWS, (256, 1024, 4096)),
}
"""The first calls by the names of rows."""


def rows_of(name: str, device: str, runs: int = 3) -> Iterator[Row]:
    """The smallest time of `runs` first calls of a function on a device, a row for each size."""
    first_call = CALLS[name]
    for n in first_call.sizes:
        code = _CODE.format(
            n=n,
            device=device,
            call=first_call.code.format(n=n, threads=n // 16),
            **first_call.input._asdict(),
        )
        samples: list[float] = []
        for _ in range(runs):
            with tempfile.TemporaryDirectory() as folder:
                environment = {
                    "TEGULA_CACHE_DIR": folder,
                    "CUDA_CACHE_DISABLE": "1",
                    "OPENBLAS_NUM_THREADS": "1",
                }
                samples.append(fresh_process(code if device == "cpu" else CONTEXT + code, environment))
        yield Row(
            f"first call, {name} {n}", min(samples), "ms", threshold=first_call.threshold(n), samples=runs
        )


def rows(runs: int = 3) -> Iterator[Row]:
    """The rows of all functions and sizes on a CPU."""
    for name in CALLS:
        yield from rows_of(name, "cpu", runs)
