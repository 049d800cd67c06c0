"""Host time with a GPU: launches, compiles, first launches."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

import tegula as tg
from benchmarks import compiles
from benchmarks import gpu_kernels as kernels
from benchmarks.compiles import CONTEXT
from benchmarks.measure import Row, fresh_process
from tegula import kernels as library_kernels
from tegula.kernels import gemm
from tegula.kernels.shapes import Tile

LAUNCHES, SAMPLES, RUNS = 300, 41, 5
LAUNCH_COUNT = LAUNCHES * SAMPLES

IMPORT = """
import time
start = time.perf_counter()
import tegula as tg
"""
ARRAYS = "arrays = [tg.zeros(shape, device='cuda:0') for shape in ((8, 8), (8, 4), (8, 4))]\n"
KERNEL = """
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
"""
LAUNCH = "tg.launch_tiled(tile_gemm, (1, 1), inputs=arrays, block_dim=64)\n"
WAIT = "tg.synchronize_device('cuda:0')\n"
PRINT = "print((time.perf_counter() - start) * 1e3)\n"
RESTART = WAIT + "start = time.perf_counter()\n"
# The launch does not wait for the GPU: its time is the time to compile and to load the machine code.
COLD = CONTEXT + IMPORT + ARRAYS + RESTART + KERNEL + LAUNCH + PRINT
WARM = (
    CONTEXT
    + IMPORT
    + KERNEL
    + ARRAYS
    + LAUNCH
    + WAIT
    + PRINT.replace("print", "import sys\nassert 'llvmlite' not in sys.modules\nprint")
)
TENSORS = """
import time
import tegula as tg
from benchmarks import gpu_kernels
"""
COLD_ATTENTION = (
    CONTEXT
    + TENSORS
    + "from tegula import kernels\n"
    + "arrays = [tg.zeros((1, 1, 256, 128), tg.bfloat16, device='cuda:0') for _ in range(4)]\n"
    + RESTART
    + "kernels.attention(*arrays)\n"
    + PRINT
)
COLD_MATMUL = (
    CONTEXT
    + TENSORS
    + "arrays = [tg.zeros((256, 256), tg.bfloat16, device='cuda:0') for _ in range(3)]\n"
    + RESTART
    + "tg.launch_tiled(gpu_kernels.gemm_kernel(128, 128, 64, 3), (2, 2), arrays, block_dim=128)\n"
    + PRINT
)


def host_time(launch: Callable[[], object]) -> float:
    """The median microseconds of a call that queues work, in runs that are too short to fill the queue."""
    launch()
    samples = []
    for _ in range(SAMPLES):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(LAUNCHES):
            launch()
        samples.append((time.perf_counter() - start) / LAUNCHES * 1e6)
    torch.cuda.synchronize()
    return statistics.median(samples)


def launches(tensors: bool) -> Iterator[Row]:
    """A launch with one block, three arrays and two scalars; `tensors`: the arrays are PyTorch tensors."""
    a, b, c = (torch.full((32,), float(k), device="cuda") for k in (1, 2, 3))
    inputs: list[Any] = [a, b, c] if tensors else [tg.array(t, copy=False) for t in (a, b, c)]
    arguments = [*inputs, 32, 2.0]

    def launch() -> None:
        tg.launch(kernels.scaled, 32, arguments, block_dim=32)

    kernel_time = host_time(launch)
    torch.cuda.synchronize()
    error = float((c - 5).abs().max())
    if error:
        raise AssertionError(f"the launch computed {c[0].item()}, not 5")
    name = f"host time of a launch with three {'tensors of PyTorch' if tensors else 'arrays'} and two scalars"
    peer = peer_launch(a, b)
    row = Row(name, kernel_time, "us", threshold=8.0 if tensors else 5.0, error=error, samples=LAUNCH_COUNT)
    if peer is not None:
        row.peer, row.peer_value = "cupy.RawKernel", peer
    yield row


def recorded_graphs() -> Iterator[Row]:
    """The launch of a recorded graph with the same kernel."""
    arrays = [tg.full(32, float(k), device="cuda:0") for k in (1, 2, 3)]
    with tg.ScopedCapture("cuda:0") as capture:
        tg.launch(kernels.scaled, 32, [*arrays, 32, 2.0], block_dim=32)
    graph = capture.graph
    assert graph is not None
    kernel_time = host_time(lambda: tg.capture_launch(graph))
    yield Row(
        "host time of a recorded launch",
        kernel_time,
        "us",
        error=largest_difference(arrays[2].numpy(), 5),
        samples=LAUNCH_COUNT,
    )


def launches_with_tensor_maps() -> Iterator[Row]:
    """A kernel whose launches pass tensor maps for bulk copies; the peer is a kernel with the same number of arguments
    and no maps."""
    a, b, c = (tg.full((64, 64), float(k), tg.bfloat16, "cuda:0") for k in (1, 2, 3))
    kernel = gemm.matmul_kernel(tg.bfloat16, Tile(64, 64, 64, 2, 1), False, gemm.Epilogue(tg.bfloat16))

    def launch() -> None:
        tg.launch_tiled(kernel, 1, [a, b, 0, 1.0, 0.0, c])

    def launch_without_maps() -> None:
        tg.launch_tiled(kernels.no_maps, 1, [a, b, 0, 1.0, 0.0, c], block_dim=256)

    name, peer = "host time of a launch with tensor maps", host_time(launch_without_maps)
    row = Row(name, host_time(launch), "us", "without", peer, samples=LAUNCH_COUNT)
    row.error = largest_difference(c.numpy().astype(float), 128)
    yield row


def library_calls(tensors: bool) -> Iterator[Row]:
    """Calls of library kernels without `out`: launches, the choice of the configuration, and the allocation."""
    kind = "tensors of PyTorch" if tensors else "arrays"
    a, b = (torch.full((1024, 1024), float(k), device="cuda", dtype=torch.bfloat16) for k in (1, 2))
    q, k, v = (torch.ones((1, 4, 256, 128), device="cuda", dtype=torch.bfloat16) for _ in range(3))
    cases: list[tuple[str, Callable[..., Any], tuple[Any, ...], Callable[[], Any], float]] = [
        ("kernels.matmul 1024x1024x1024", library_kernels.matmul, (a, b), lambda: torch.matmul(a, b), 2048.0),
        (
            "kernels.attention of 4 heads, 256x128",
            library_kernels.attention,
            (q, k, v),
            lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v),
            1.0,
        ),
    ]
    for name, call, inputs, peer, expected in cases:
        arguments = inputs if tensors else tuple(tg.array(t, copy=False) for t in inputs)
        kernel_time = host_time(partial(call, *arguments))
        result = call(*arguments)
        error = largest_difference(
            (result.float().cpu() if tensors else result).numpy().astype(float), expected
        )
        title = f"host time of {name} with {kind}"
        yield Row(
            title,
            kernel_time,
            "us",
            "PyTorch",
            host_time(peer),
            threshold=15.0,
            error=error,
            samples=LAUNCH_COUNT,
        )


def largest_difference(actual: Any, expected: float) -> float:
    """The largest difference; AssertionError if it is not 0."""
    error = float(abs(actual - expected).max())
    if error:
        raise AssertionError(f"the launches computed {actual.flat[0]}, not {expected}")
    return error


def peer_launch(a: torch.Tensor, b: torch.Tensor) -> float | None:
    """CuPy's time for the same launch; None if CuPy does not work."""
    try:
        import cupy

        source = """extern "C" __global__ void scaled(const float *a, const float *b, float *c, int n, float s) {
            int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) c[i] = a[i] + b[i] * s; }"""
        kernel = cupy.RawKernel(source, "scaled")
        x, y, z = cupy.asarray(a), cupy.asarray(b), cupy.zeros(32, cupy.float32)
        n, s = cupy.int32(32), cupy.float32(2)
        return host_time(lambda: kernel((1,), (32,), (x, y, z, n, s)))
    except Exception as error:
        print(f"no peer for launches: {error!r}"[:300], flush=True)
        return None


def process(name: str, code: str, threshold: float | None, warm: bool) -> Iterator[Row]:
    """First launches, each in a new process; `warm`: with a filled disk cache. The driver's own cache is disabled."""
    samples = []
    with tempfile.TemporaryDirectory() as warm_folder:
        for k in range(RUNS + 1):
            with tempfile.TemporaryDirectory() as cold_folder:
                environment = {
                    "TEGULA_CACHE_DIR": warm_folder if warm else cold_folder,
                    "CUDA_CACHE_DISABLE": "1",
                }
                # The first run fills the disk cache and Python's cache of bytecode.
                if k == 0:
                    fresh_process(COLD if warm else code, environment)
                else:
                    samples.append(fresh_process(code, environment))
    note = f"{min(samples):.0f} to {max(samples):.0f} ms"
    yield Row(name, statistics.median(samples), "ms", threshold=threshold, samples=RUNS, note=note)


CASES: dict[str, Callable[[], Iterator[Row]]] = {
    "host time, arrays": partial(launches, tensors=False),
    "host time, tensors": partial(launches, tensors=True),
    "host time, recorded": recorded_graphs,
    "host time, tensor maps": launches_with_tensor_maps,
    "host time, library, tensors": partial(library_calls, tensors=True),
    "host time, library, arrays": partial(library_calls, tensors=False),
    "docs GEMM, cold": partial(
        process, "docs GEMM, source to loaded machine code, cold", COLD, 300.0, warm=False
    ),
    "first launch, warm": partial(
        process, "import to first launch beyond the context, warm cache", WARM, 300.0, warm=True
    ),
    "bfloat16 GEMM, cold": partial(
        process,
        "bfloat16 GEMM 128x128x64, source to loaded machine code, cold",
        COLD_MATMUL,
        None,
        warm=False,
    ),
    "attention, cold": partial(
        process, "attention with roles, source to loaded machine code, cold", COLD_ATTENTION, None, warm=False
    ),
    **{f"first call, {name}": partial(compiles.rows_of, name, "cuda:0") for name in compiles.CALLS},
}
"""The cases by name, in order; each yields its rows."""
