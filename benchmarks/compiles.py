"""CPU time of first calls of batched linear algebra, transforms and sorts on a CPU, with an empty disk cache."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

from benchmarks.measure import Row, fresh_process

_PREPARATION = """
import time
import numpy as np
import tegula as tg
batch, n = 64, {n}
rng = np.random.default_rng(0)
numbers = rng.standard_normal({shape}).astype(np.float32)
"""
_MATRICES = """
x = tg.array(numbers @ numbers.transpose(0, 2, 1) + n * np.eye(n, dtype=np.float32))
"""
_PAIRS = """
x = tg.array(numbers, dtype=tg.vec2f)
"""
_NUMBERS = """
x = tg.array(numbers)
"""
_CALL = """
tg.zeros(1)
start = time.process_time()
{call}
print((time.process_time() - start) * 1e3)
"""
FUNCTIONS = {
    "cholesky": "tg.kernels.cholesky(x)",
    "solve": "tg.kernels.solve(x, x)",
    "lu": "tg.kernels.lu(x)",
    "qr": "tg.kernels.qr(x)",
    "eigh": "tg.kernels.eigh(x)",
    "svd": "tg.kernels.svd(x)",
    "inverse": "tg.kernels.inverse(x)",
}
"""The calls of functions of square matrices, by name."""
SMALL, LARGE = 300.0, 1200.0
"""The thresholds in ms for matrices of up to 32 x 32, transforms and sorts, and for larger matrices."""


def _row(name: str, preparation: str, call: str, n: int, shape: str, threshold: float, runs: int) -> Row:
    """The smallest CPU time of a first call, each in a new process with a new disk cache."""
    code = _PREPARATION.format(n=n, shape=shape) + preparation + _CALL.format(call=call)
    samples: list[float] = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as folder:
            samples.append(fresh_process(code, {"TEGULA_CACHE_DIR": folder}))
    return Row(f"first call, {name} {n}", min(samples), "ms", threshold=threshold, samples=runs)


def rows(runs: int = 3) -> Iterator[Row]:
    """The rows of all functions and sizes."""
    for name, call in FUNCTIONS.items():
        for n in (8, 16, 32, 64):
            threshold = SMALL if n <= 32 else LARGE
            yield _row(name, _MATRICES, call, n, "(batch, n, n)", threshold, runs)
    for n in (64, 256, 1024, 4096, 8192):
        yield _row("FFT", _PAIRS, "tg.kernels.fft(x)", n, "(batch, n, 2)", SMALL, runs)
    yield _row("sort", _NUMBERS, "tg.kernels.sort(x)", 1024, "(batch, n)", SMALL, runs)
