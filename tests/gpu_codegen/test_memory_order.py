"""In the emitted code all pairs of accesses of shared memory are ordered, lane by lane: one lane of a warp arrives for
the warp, which orders the accesses of the other lanes too."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from gpu_code import lower_to_llvm
from memory_order import AccessOrder
from pipe_chain import chain
from simt import run_together

import kernels
import tegula as tg
from tegula.codegen.gpu import GpuCode
from tegula.dataclass import replace
from tegula.runtime.launch import block_size

ROWS, WORD = 7, 4
SYNC = re.compile(r"^  call void @llvm\.nvvm\.bar\.warp\.sync\(i32 -1\)\n", re.MULTILINE)
LOAD_BEFORE_ARRIVAL = re.compile(
    r"^(?P<load>  %\S+ = load float, ptr %\S+, align 4\n)(?P<rest>(?:  .*\n)*?  call .*bar\.warp\.sync(?:.*\n)+?"
    r"  call void asm sideeffect .mbarrier\.arrive\..*\n  br label .*\ndone\w+:\n)",
    re.MULTILINE,
)
"""A load, and the instructions after it up to an arrival."""


@tg.kernel
def sums(x: tg.array2d[float], out: tg.array2d[float], n: int):
    """Roles of several warps that also synchronise among themselves."""
    rows = tg.tile_pipe(shape=(1, 32), dtype=float, stages=2)
    pipe = tg.tile_pipe(shape=(1, 32), dtype=float, stages=2)
    with tg.role("load", warps=2):
        for k in range(n):
            tg.tile_pipe_push(rows, tg.tile_load(x, shape=(1, 32), offset=(k, 0)))
    with tg.role("add", warps=3):
        total = tg.tile_zeros(shape=(1, 32))
        for _k in range(n):
            row = tg.tile_pipe_pop(rows)
            total += row * tg.tile_sum(row)
            tg.tile_pipe_push(pipe, total)
    with tg.role("store", warps=2):
        for k in range(n):
            tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(k, 0))


def expected_sums(x: np.ndarray) -> np.ndarray:
    return np.cumsum(x * x.sum(1, keepdims=True), 0)


KERNELS: dict[str, tuple[Any, Callable[[np.ndarray], np.ndarray]]] = {
    **{f"chain of {n} stages": (chain(n), np.square) for n in (1, 2, 3, 4)},
    "sums": (sums, expected_sums),
}


def compile_kernel(kernel: Any, arch: str = "sm_90a") -> tuple[GpuCode, list[Any]]:
    x = np.arange(ROWS * 32, dtype=np.float32).reshape(ROWS, 32) % 9
    args = [tg.array(x), tg.zeros((ROWS, 32)), ROWS]
    return lower_to_llvm(kernel, args, (1,), block_size(kernel, None, args), arch=arch), args


def run_and_order(code: GpuCode, kernel: Any, args: Sequence[Any], ignored: str = "") -> AccessOrder:
    order = AccessOrder(code.threads, ignored)
    run_together(code, kernel, args, (1, code.threads), 1, order)
    return order


@pytest.mark.machine_code
@pytest.mark.parametrize("name", KERNELS)
def test_every_access_of_a_stage_has_an_order(name: str) -> None:
    kernel, reference = KERNELS[name]
    code, args = compile_kernel(kernel)
    order = run_and_order(code, kernel, args)
    assert order.races == []
    assert order.last_writes and np.array_equal(args[1].numpy(), reference(args[0].numpy()))


@pytest.mark.machine_code
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_without_warp_synchronisation_all_lanes_but_one_race(stages: int) -> None:
    """The races of 31 lanes, for each byte, each reading warp and each iteration but the first: the reports of a tool
    that models arrivals but no synchronisation of warps."""
    kernel, _ = KERNELS[f"chain of {stages} stages"]
    code, args = compile_kernel(kernel)
    order = run_and_order(code, kernel, args, ignored="warp")
    assert {first % 32 for _, _, first, _ in order.races} == set(range(1, 32))
    counts = Counter(kind for kind, _, _, second in order.races if second < code.threads)
    assert counts == {"RAW": 2 * 31 * WORD * ROWS, "WAR": 2 * 31 * WORD * (ROWS - stages)}


@pytest.mark.machine_code
def test_a_shuffle_is_not_a_synchronisation() -> None:
    """All lanes of a warp wait for a shuffle, but it does not order memory (PTX ISA, "shfl.sync")."""
    kernel, _ = KERNELS["chain of 2 stages"]
    code, args = compile_kernel(kernel)
    text, replacement_count = SYNC.subn(
        "  call i32 @llvm.nvvm.shfl.sync.idx.i32(i32 -1, i32 0, i32 0, i32 31)\n", code.text
    )
    assert replacement_count
    order = run_and_order(replace(code, text=text), kernel, args)
    assert {first % 32 for _, _, first, _ in order.races} == set(range(1, 32))


@pytest.mark.machine_code
def test_an_arrival_before_the_read_is_a_race() -> None:
    kernel, _ = KERNELS["chain of 2 stages"]
    code, args = compile_kernel(kernel)
    text, replacement_count = LOAD_BEFORE_ARRIVAL.subn(r"\g<rest>\g<load>", code.text, count=1)
    assert replacement_count == 1
    order = run_and_order(replace(code, text=text), kernel, args)
    assert order.races


@pytest.mark.machine_code
@pytest.mark.parametrize("name", ["gather", "gemm", "concatenated", "softmax", "transposed", "tree"])
def test_accesses_to_shared_memory_of_a_block_are_ordered(name: str) -> None:
    """The order follows from the synchronisations of the block."""
    launch = kernels.launches()[name]
    code = lower_to_llvm(launch.kernel, launch.args, launch.dims[:-1], launch.block_dim)
    for ignored, is_racy in (("", False), ("block", True)):
        order = AccessOrder(code.threads, ignored)
        run_together(code, launch.kernel, launch.args, launch.dims, 1, order)
        assert order.last_writes and bool(order.races) == is_racy
