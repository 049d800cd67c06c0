"""What debug mode adds to kernels for GPUs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from agreement import traced
from lowering import Launch, run_lowered, tiled

import tegula as tg
from tegula.backend import ptx
from tegula.backend.llvm import compile_ptx
from tegula.codegen.gpu import lower_kernel
from tegula.ir import Kernel
from tegula.passes.pipeline import prepare
from tegula.passes.pipeline_gpu import Distribution, for_gpu
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
    """Operands that mean thread 0's value, without a promise that others have the same."""
    i, j = tg.tid()
    tg.tile_store(out[j:], tg.tile_load(n[j:], shape=4, offset=j))


def lowered(kernel: Any, numbers: list[int], debug: bool) -> tuple[Kernel, Distribution, Launch]:
    args = [tg.array(numbers, dtype=int), tg.zeros(len(numbers), dtype=int)]
    launch = tiled(kernel, args, (1,), len(numbers))
    made = traced(kernel, args, launch.dims, launch.block_dim)
    prepare(made)
    return made, for_gpu(made, get_cuda_target(), debug=debug), launch


def reports(made: Kernel, parts: Distribution) -> list[str]:
    """What the code, which assembles, reports."""
    code = lower_kernel(made, parts, get_cuda_target(), debug=True)
    ptx.compile_cubin(compile_ptx(code.text, ARCH), ARCH)
    return [site.kind for site in code.sites]


@pytest.mark.parametrize("kernel", [counts, points], ids=lambda k: k.name)
@pytest.mark.parametrize("lanes", [40, 64])
def test_threads_that_do_not_agree_are_reported(kernel: Any, lanes: int) -> None:
    equal, differing = [3] * lanes, [3] * 35 + [4] * (lanes - 35)
    made, parts, launch = lowered(kernel, equal, debug=True)
    assert reports(made, parts).count("uniform") == 1
    np.testing.assert_array_equal(run_lowered(made, parts, launch)[0][1], equal)
    with pytest.raises(tg.BrokenPromise, match="lane 35"):
        run_lowered(*lowered(kernel, differing, debug=True))
    assert run_lowered(*lowered(kernel, differing, debug=False))[0][1].tolist() == equal


def test_operands_of_the_group_are_not_compared() -> None:
    made, parts, launch = lowered(rows, list(range(8)), debug=True)
    assert "uniform" not in reports(made, parts)
    assert run_lowered(made, parts, launch)[0][1].tolist() == [0, 1, 2, 3, 0, 0, 0, 0]
