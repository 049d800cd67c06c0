"""Roles on other GPU architectures than Hopper: the same kernels with the instructions of the target."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

from gpu_code import assemble, lower_to_llvm, run_gpu_passes

import tegula as tg
from support.campaigns import rest_slow, sampled
from support.hopper_roles import (
    HALF,
    arrays,
    chained_matmuls,
    matmul,
    pushed_operand,
    two_producers,
    two_readers,
)
from tegula.backend import ptx
from tegula.check.schedule import check_schedule
from tegula.runtime.launch import block_size

ASSEMBLER = bool(ptx.candidates())
KERNELS = {k.name: k for k in (matmul, two_producers, pushed_operand, chained_matmuls, two_readers)}
MAY_SPILL = {"chained_matmuls", "pushed_operand"}
"""Kernels whose accumulators fit into registers with wgmma, but not with mma."""
# Instructions of Hopper and later.
HOPPER_INSTRUCTIONS = (
    "cp.async.bulk",
    "elect.sync",
    "try_wait",
    "expect_tx",
    "fence.",
    "setmaxnreg",
    "stmatrix",
    "wgmma",
)


def arguments(kernel: Any, align: bool = True) -> list[Any]:
    return [*arrays(HALF, HALF, HALF if kernel is matmul else float, align=align), 4]


@sampled(
    3,
    ("arch", "name"),
    rest_slow(
        product(("sm_80", "sm_86", "sm_89"), KERNELS),
        lambda arch, name: arch == "sm_80" or name == "matmul",
    ),
)
def test_roles_before_hopper_use_cp_async_and_mma_sync(arch: str, name: str) -> None:
    """Copies are cp.async, barriers count arrivals only, and matmuls are mma.sync of warps."""
    kernel = KERNELS[name]
    args = arguments(kernel)
    threads = block_size(kernel, None, args)
    lowered_kernel, compilation = run_gpu_passes(kernel, args, (1,), threads, arch)
    assert check_schedule(lowered_kernel, compilation).passed
    text, cubin = assemble(lower_to_llvm(kernel, args, (1,), threads, arch=arch), arch)
    assert not [i for i in HOPPER_INSTRUCTIONS if i in text]
    assert "mma.sync" in text and re.search(r"mbarrier\.test_wait\.parity", text)
    copy_position = text.index("cp.async.cg")
    wait_position = text.index("cp.async.wait_group", copy_position)
    assert copy_position < wait_position < text.index("mbarrier.arrive", wait_position)
    if ASSEMBLER and name not in MAY_SPILL:
        assert cubin.spill_bytes == 0


@sampled(
    3,
    ("arch", "name"),
    rest_slow(
        product(("sm_100a", "sm_120a"), KERNELS), lambda arch, name: arch == "sm_100a" or name == "matmul"
    ),
)
def test_roles_after_hopper_use_bulk_copies_and_mma_sync(arch: str, name: str) -> None:
    """Bulk copies as on Hopper, matmuls by mma.sync of warps; registers are set where the assembler supports
    setmaxnreg."""
    kernel = KERNELS[name]
    args = arguments(kernel)
    code = lower_to_llvm(kernel, args, (1,), block_size(kernel, None, args), arch=arch)
    text, cubin = assemble(code, arch)
    assert "cp.async.bulk.tensor" in text and "mma.sync" in text and "wgmma" not in text
    assert bool(code.budgets) == ("setmaxnreg" in text)
    assert arch == "sm_100a" or not code.budgets
    if ASSEMBLER and name not in MAY_SPILL:
        assert cubin.spill_bytes == 0


def test_large_loads_by_few_threads_are_asynchronous() -> None:
    """One warp loads 64 x 128 elements of an array that no tensor map describes."""

    @tg.kernel
    def sum_rows(x: tg.array2d[HALF], y: tg.array2d[float], n: int):
        pipe = tg.tile_pipe(shape=(64, 128), dtype=HALF, stages=2)
        with tg.role("fetch", warps=1):
            for k in range(n):
                tg.tile_pipe_load(pipe, x, offset=(k * 64, 0))
        with tg.role("sum", warp_groups=1):
            for k in range(n):
                tile = tg.tile_astype(tg.tile_pipe_pop(pipe), tg.float32)
                tg.tile_store(y, tg.tile_sum(tile, axis=1, keepdims=True), offset=(k * 64, 0))

    args = [*arrays(HALF, float, align=False), 2]
    text, cubin = assemble(lower_to_llvm(sum_rows, args, (1,), block_size(sum_rows, None, args)))
    assert "cp.async.wait_group" in text and "cp.async.bulk" not in text
    if ASSEMBLER:
        assert cubin.spill_bytes == 0


@tg.kernel
def few_registers(a: tg.array2d[HALF], b: tg.array2d[HALF], c: tg.array2d[float], steps: int):
    left = tg.tile_pipe(shape=(128, 64), dtype=HALF, stages=3)
    right = tg.tile_pipe(shape=(64, 128), dtype=HALF, stages=3)
    with tg.ws(0, registers=40):
        for k in range(steps):
            tg.tile_pipe_load(left, a, offset=(0, k * 64))
            tg.tile_pipe_load(right, b, offset=(k * 64, 0))
    with tg.ws(1, 2, registers=232):
        total = tg.tile_zeros(shape=(128, 128))
        for _k in range(steps):
            tg.tile_matmul(tg.tile_pipe_pop(left), tg.tile_pipe_pop(right), total)
        tg.tile_store(c, total)


def test_copies_by_threads_with_few_registers_bypass_registers() -> None:
    """A role with few registers, whose threads copy without bulk copies."""
    args = arguments(few_registers, align=False)
    text, cubin = assemble(lower_to_llvm(few_registers, args, (1,), block_size(few_registers, None, args)))
    assert "setmaxnreg.dec.sync.aligned.u32 40" in text and "cp.async.wait_group" in text
    assert "cp.async.bulk.tensor.2d.shared" not in text
    if ASSEMBLER:
        assert cubin.spill_bytes == 0
