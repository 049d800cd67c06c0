"""Host time: launches, imports, compiles, proofs of schedules."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator

import tegula as tg
from benchmarks import compiles, proofs
from benchmarks.measure import Row, fresh_process

DOCS_GEMM = """
import time
start = time.perf_counter()
import tegula as tg
@tg.kernel(source='''
def tile_gemm(A: tg.array2d[float], B: tg.array2d[float], C: tg.array2d[float]):
    i, j = tg.tid()
    sum = tg.tile_zeros(shape=(8, 4), dtype=tg.float32)
    count = int(A.shape[1] / 8)
    for k in range(0, count):
        a = tg.tile_load(A, shape=(8, 8), offset=(i*8, k*8))
        b = tg.tile_load(B, shape=(8, 4), offset=(k*8, j*4))
        tg.tile_matmul(a, b, sum)
    tg.tile_store(C, sum, offset=(i*8, j*4))
''')
def tile_gemm(A: tg.array2d[float], B: tg.array2d[float], C: tg.array2d[float]):
    pass
arrays = [tg.zeros((8, 8)), tg.zeros((8, 4)), tg.zeros((8, 4))]
ready = time.perf_counter()
tg.launch_tiled(tile_gemm, (1, 1), inputs=arrays, block_dim=64)
"""
COLD = DOCS_GEMM + "print((time.perf_counter() - start) * 1e3)\n"
WARM = (
    DOCS_GEMM
    + "import sys\nassert 'llvmlite' not in sys.modules\nprint((time.perf_counter() - ready) * 1e3)\n"
)
IMPORT = """
import numpy, time
start = time.perf_counter()
import tegula
tegula.launch
print((time.perf_counter() - start) * 1e3)
"""


@tg.kernel
def scaled_sum(a: tg.array[float], b: tg.array[float], c: tg.array[float], n: int, s: float):
    tg.tile_store(c, tg.tile_load(a, 32) + tg.tile_load(b, 32) * s)


def launch_row() -> Row:
    """A launch with one block, three arrays and two scalars."""
    a, b, c = (tg.zeros(32) for _ in range(3))
    args = [a, b, c, 3, 2.0]
    tg.launch_tiled(scaled_sum, 1, inputs=args, block_dim=32)
    samples = []
    for _ in range(41):
        start = time.perf_counter()
        for _ in range(500):
            tg.launch_tiled(scaled_sum, 1, inputs=args, block_dim=32)
        samples.append((time.perf_counter() - start) / 500 * 1e6)
    return Row("launch, one block", statistics.median(samples), "us", threshold=5.0, samples=41)


def process_row(name: str, code: str, threshold: float, warm: bool, runs: int = 7) -> Row:
    """First launches, each in a new process; `warm`: with a filled disk cache."""
    samples = []
    with tempfile.TemporaryDirectory() as warm_folder:
        if warm:
            fresh_process(COLD, {"TEGULA_CACHE_DIR": warm_folder})
        for _ in range(runs):
            with tempfile.TemporaryDirectory() as cold_folder:
                samples.append(
                    fresh_process(code, {"TEGULA_CACHE_DIR": warm_folder if warm else cold_folder})
                )
    return Row(name, statistics.median(samples), "ms", threshold=threshold, samples=runs)


def rows() -> Iterator[Row]:
    yield launch_row()
    yield process_row("import beyond NumPy", IMPORT, 60.0, warm=True)
    yield process_row("docs GEMM, cold, from process start", COLD, 200.0, warm=False)
    yield process_row("docs GEMM, from the disk cache", WARM, 10.0, warm=True)
    yield from compiles.rows()
    yield from proofs.rows()
