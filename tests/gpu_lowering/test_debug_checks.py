"""Checks of users' promises in GPU kernels, in release and debug mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from agreement import traced
from lowering import Launch, run_lowered, tiled

import tegula as tg
from support.campaigns import sampled
from tegula.backend import ptx
from tegula.backend.llvm import compile_ptx
from tegula.codegen.gpu import lower_kernel
from tegula.ir import Kernel
from tegula.passes.pipeline import prepare
from tegula.passes.pipeline_gpu import for_gpu
from tegula.passes.runner import GpuCompilation
from tegula.target import get_cuda_target

ARCH = get_cuda_target().arch


@tg.kernel
def counts(n: tg.array[int], out: tg.array[int]):
    i, j = tg.tid()
    total = 0
    for _ in range(tg.uniform(n[j])):
        total += 1
    out[j] = total


@tg.kernel
def points(n: tg.array[int], out: tg.array[int]):
    i, j = tg.tid()
    out[j] = int(tg.uniform(tg.vec2(1.0, float(n[j])))[1])


@tg.kernel
def rows(n: tg.array[int], out: tg.array[int]):
    """Operands that mean thread 0's value, without a promise that other threads have the same value."""
    i, j = tg.tid()
    tg.tile_store(out[j:], tg.tile_load(n[j:], shape=4, offset=j))


def lowered(kernel: Any, numbers: list[int], debug: bool) -> tuple[Kernel, GpuCompilation, Launch]:
    args = [tg.array(numbers, dtype=int), tg.zeros(len(numbers), dtype=int)]
    launch = tiled(kernel, args, (1,), len(numbers))
    return *distributed(launch, debug), launch


def distributed(launch: Launch, debug: bool, arch: str = ARCH) -> tuple[Kernel, GpuCompilation]:
    kernel = traced(launch.kernel, launch.args, launch.dims, launch.block_dim)
    prepare(kernel)
    return kernel, for_gpu(kernel, get_cuda_target(arch), debug=debug)


def reports(kernel: Kernel, compilation: GpuCompilation, debug: bool = True, arch: str = ARCH) -> list[str]:
    """The kinds of the reports in the code of a kernel, which must assemble."""
    code = lower_kernel(kernel, compilation, get_cuda_target(arch), debug=debug)
    ptx.compile_cubin(compile_ptx(code.text, arch), arch)
    return [site.kind for site in code.sites]


@pytest.mark.parametrize("kernel", [counts, points], ids=lambda k: k.name)
@pytest.mark.parametrize("lanes", [40, 64])
def test_debug_mode_reports_uniform_values_that_differ_between_threads(kernel: Any, lanes: int) -> None:
    equal, differing = [3] * lanes, [3] * 35 + [4] * (lanes - 35)
    traced_kernel, compilation, launch = lowered(kernel, equal, debug=True)
    assert reports(traced_kernel, compilation).count("uniform") == 1
    np.testing.assert_array_equal(run_lowered(traced_kernel, compilation, launch)[0][1], equal)
    with pytest.raises(tg.BrokenPromise, match="lane 35"):
        run_lowered(*lowered(kernel, differing, debug=True))
    assert run_lowered(*lowered(kernel, differing, debug=False))[0][1].tolist() == equal


def test_debug_mode_does_not_compare_group_operands() -> None:
    kernel, compilation, launch = lowered(rows, list(range(8)), debug=True)
    assert "uniform" not in reports(kernel, compilation)
    assert run_lowered(kernel, compilation, launch)[0][1].tolist() == [0, 1, 2, 3, 0, 0, 0, 0]


@tg.kernel
def piped(x: tg.array2d[float], out: tg.array2d[float]):
    pipe = tg.tile_pipe(shape=(2, 8), dtype=float, stages=2)
    with tg.ws(0):
        tg.tile_pipe_load(pipe, x, offset=(1, 0), aligned=True)
        tg.tile_pipe_load(pipe, x, bounds_check=False)
    with tg.ws(1):
        for _ in range(2):
            tg.tile_store(out, tg.tile_pipe_pop(pipe))


@tg.kernel
def checked_matmuls(a: tg.array2d[tg.float16], b: tg.array2d[tg.float16], c: tg.array2d[tg.float32]):
    i, j = tg.tid()
    total = tg.tile_zeros(shape=(128, 128), dtype=tg.float32)
    for k in range(a.shape[1] // 64):
        x = tg.tile_load(a, shape=(128, 64), offset=(i * 128, k * 64), aligned=True)
        y = tg.tile_load(b, shape=(64, 128), offset=(k * 64, j * 128))
        tg.tile_matmul(x, y, total)
    tg.tile_store(c, total, offset=(i * 128, j * 128), aligned=True)


@sampled(2, "arch", ["sm_80", "sm_90a"])
def test_alignment_promises_of_asynchronous_copies_are_checked(arch: str) -> None:
    """Asynchronous copies by threads, bulk copies that the user wrote, and bulk copies of automatic schedules."""
    x = tg.zeros((8, 16))
    a, c = tg.zeros((256, 256), dtype=tg.float16), tg.zeros((256, 256))
    for launch, promises in (
        (tiled(piped, [x, x], (1,), 256), 1),
        (tiled(checked_matmuls, [a, a, c], (2, 2), 128), 2),
    ):
        release_reports = reports(*distributed(launch, False, arch), False, arch)
        assert release_reports == ["misaligned"] * promises
    release_reports = reports(
        *distributed(tiled(piped, [x, tg.zeros((8, 16))], (1,), 256), True, arch), True, arch
    )
    assert release_reports == ["misaligned", "strided", "tile bounds", "tile bounds"]
