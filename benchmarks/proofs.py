"""CPU time of proofs of schedules, and of their verification, for kernels of the library and a persistent matmul."""

from __future__ import annotations

import importlib
import json
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import tegula as tg
from benchmarks import role_kernels
from benchmarks.measure import Row
from tegula.check.proof import prove
from tegula.check.verifier import verify
from tegula.ir import Kernel, LaunchClass
from tegula.kernels import gemm, shapes
from tegula.ops.roles import Roles, block_threads
from tegula.passes.pipeline import prepare
from tegula.passes.pipeline_gpu import for_gpu
from tegula.passes.runner import GpuCompilation
from tegula.runtime.check import PACKED, argument_types
from tegula.runtime.compile import trace
from tegula.runtime.library import library
from tegula.target import get_cuda_target
from tegula.types import ArrayType

SAMPLES = 9
FRACTION = 0.2
"""The maximum time of a verification, as a fraction of the threshold of the proof."""


def _gemm() -> Any:
    return gemm.matmul_kernel(
        tg.bfloat16, shapes.TENSOR_CORES[0], False, gemm.Epilogue(tg.bfloat16), "default"
    )


def _attention(causal: bool) -> Any:
    attention: Any = importlib.import_module("tegula.kernels.attention")
    return attention.forward(tg.bfloat16, 128, causal, False, True)


CASES: tuple[tuple[str, Callable[[], Any], int, float], ...] = (
    ("library GEMM", _gemm, 2, 60.0),
    ("causal attention", lambda: _attention(True), 4, 200.0),
    ("attention", lambda: _attention(False), 2, 200.0),
    ("a persistent matmul with two consumers", lambda: role_kernels.two_consumer_roles, 2, 1000.0),
)
"""The name of a kernel, the function that creates the kernel, the number of launch dimensions, and the maximum
milliseconds of a proof."""


def lower_kernel(kernel: Any, ndim: int) -> tuple[Kernel, GpuCompilation]:
    """A kernel with roles, lowered for a Hopper GPU with packed arrays."""
    types = argument_types(kernel, ())
    access = tuple(PACKED if isinstance(t, ArrayType) else None for t in types)

    def launch(threads: int) -> LaunchClass:
        return LaunchClass(ndim, threads, (True,) * (ndim - 1) + (False,), True, False)

    first = kernel.trace(types, launch(128), access, library())
    roles = next(op for op in first.body.ops if isinstance(op, Roles))
    traced_kernel = trace(kernel, types, launch(block_threads(roles)), access)
    prepare(traced_kernel)
    return traced_kernel, for_gpu(traced_kernel, get_cuda_target("sm_90a"))


def _milliseconds(run: Callable[[], object]) -> float:
    samples = []
    for _ in range(SAMPLES):
        start = time.process_time()
        run()
        samples.append((time.process_time() - start) * 1e3)
    return statistics.median(samples)


def rows() -> Iterator[Row]:
    """For each kernel, the time to find a proof, and the time to verify it."""
    for name, make, ndim, max_ms in CASES:
        kernel, parts = lower_kernel(make(), ndim)
        certificate = json.loads(json.dumps(prove(kernel, parts)))
        proof = _milliseconds(lambda kernel=kernel, parts=parts: prove(kernel, parts))
        check = _milliseconds(
            lambda kernel=kernel, parts=parts, certificate=certificate: verify(kernel, parts, certificate)
        )
        note = f"{100 * check / proof:.0f} % of the proof"
        yield Row(f"proof of {name}", proof, "ms", threshold=max_ms, samples=SAMPLES, note="CPU time")
        yield Row(
            f"verification of {name}", check, "ms", threshold=FRACTION * max_ms, samples=SAMPLES, note=note
        )
