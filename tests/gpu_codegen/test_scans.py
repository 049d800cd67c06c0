"""Scans as GPU code: the interpreter, the CPU, the lowered program and the code, thread by thread, compute the same
bits in blocks of any size, also with absent threads."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pytest
from agreement import agree, assert_same_bits
from gpu_code import assemble, lower_to_llvm
from lowering import Launch, agrees
from simt import run_together

import tegula as tg
from support.campaigns import sampled
from tegula.codegen.gpu import lower_kernel
from tegula.target import get_cuda_target

SIZES = [(7, 64), (1000, 33), (96, 128), (130, 100), (33, 1), (997, 256), (1000, 32), (70, 1)]
SIZE_PARAMETERS = [
    pytest.param(*size, marks=() if k < 3 else pytest.mark.slow) for k, size in enumerate(SIZES)
]
D = Any


@cache
def scan_kernel(n: int) -> Any:
    @tg.kernel
    def scan(x: tg.array1d[D], y: tg.array2d[D]):
        t = tg.tile_load(x, shape=n)
        tg.tile_store(y[0], tg.tile_scan_inclusive(t))
        tg.tile_store(y[1], tg.tile_scan_max_inclusive(t))

    return scan


@tg.kernel
def scan_of_lanes(x: tg.array1d[float], y: tg.array2d[float]):
    i = tg.tid()
    v = tg.vector(x[i], -x[i])
    totals, minima = (
        tg.untile(tg.tile_scan_exclusive(tg.tile(v))),
        tg.untile(tg.tile_scan_min_inclusive(tg.tile(v))),
    )
    y[0, i], y[1, i], y[2, i], y[3, i] = totals[0], totals[1], minima[0], minima[1]


def check(launch: Launch) -> None:
    expected = agree(launch.kernel, launch.args, launch.dims, launch.block_dim)
    kernel, compilation = agrees(launch)
    actual = [tg.clone(a) for a in launch.args]
    blocks = -(-int(np.prod(launch.dims)) // launch.block_dim)
    run_together(
        lower_kernel(kernel, compilation, get_cuda_target()), launch.kernel, actual, launch.dims, blocks
    )
    for a, b in zip(actual, expected, strict=True):
        assert_same_bits(a.numpy(), b)


@pytest.mark.machine_code
@sampled(3, ("n", "block_dim"), SIZE_PARAMETERS)
def test_scans_have_the_same_bits_on_all_targets(n: int, block_dim: int) -> None:
    x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    check(Launch(scan_kernel(n), (tg.array(x), tg.zeros((2, n))), (1, block_dim), block_dim))


@pytest.mark.machine_code
@pytest.mark.parametrize("threads", [40, pytest.param(75, marks=pytest.mark.slow)])
def test_scans_with_absent_threads_have_the_same_bits(threads: int) -> None:
    x = np.random.default_rng(threads).standard_normal(threads).astype(np.float32)
    check(Launch(scan_of_lanes, (tg.array(x), tg.zeros((4, threads))), (threads,), 33))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
def test_scans_exchange_one_element_per_warp(arch: str) -> None:
    """A sum of 512 elements in four warps needs one barrier and one element per warp in shared memory; one warp needs
    neither."""
    for threads, barriers, accesses in ((128, 1, 4), (32, 0, 0)):
        args = [tg.ones(512), tg.zeros((1, 512))]
        text, code = assemble(lower_to_llvm(scan_512, args, (1,), threads, arch=arch), arch)
        assert code.spill_bytes == 0
        assert len(re.findall(r"\bbar\.sync|barrier\.sync", text)) == barriers
        assert len(re.findall(r"(?:ld|st)\.shared", text)) == accesses


@tg.kernel
def scan_512(x: tg.array1d[float], y: tg.array2d[float]):
    tg.tile_store(y[0], tg.tile_scan_inclusive(tg.tile_load(x, shape=512)))
