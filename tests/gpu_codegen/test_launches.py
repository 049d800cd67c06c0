"""Overlapping launches: where kernels wait for earlier launches, and where kernels trigger later launches."""

from __future__ import annotations

import re
from typing import Any

import pytest
from gpu_code import assemble, lower_to_llvm, run_gpu_passes

import tegula as tg
from tegula.codegen.gpu import lower_kernel
from tegula.ir import LOOPED, WAITED, LaunchOverlap
from tegula.target import get_cuda_target

HALF = tg.bfloat16
TRIGGER, WAIT = "griddepcontrol.launch_dependents", "griddepcontrol.wait"
MEMORY_ACCESS = re.compile(r"\b(ld\.global|st\.global|atom\.|red\.|cp\.async|cp\.reduce)")


@tg.kernel
def scale(x: tg.array1d[float], n: tg.array1d[int]):
    i = tg.tid()
    if i < n[0]:
        x[i] = x[i] * 2.0


@tg.kernel
def count(n: tg.array1d[int]):
    tg.atomic_add(n, 0, 1)


@tg.kernel
def empty_kernel(n: int):
    i = tg.tid()
    m = i + n


@tg.kernel
def matmul(a: tg.array2d[HALF], b: tg.array2d[HALF], c: tg.array2d[HALF], steps: tg.array1d[int]):
    left = tg.tile_pipe(shape=(64, 64), dtype=HALF, stages=3)
    right = tg.tile_pipe(shape=(64, 64), dtype=HALF, stages=3)
    with tg.ws(0):
        for k in range(steps[0]):
            tg.tile_pipe_load(left, a, offset=(0, k * 64))
            tg.tile_pipe_load(right, b, offset=(k * 64, 0))
    with tg.ws(1):
        total = tg.tile_zeros(shape=(64, 64))
        for _k in range(steps[0]):
            tg.tile_matmul(tg.tile_pipe_pop(left), tg.tile_pipe_pop(right), total)
        tg.tile_store(c, tg.tile_astype(total, HALF))


def compile_to_ptx(kernel: Any, args: list[Any], threads: int, arch: str = "sm_90a") -> str:
    text, cubin = assemble(lower_to_llvm(kernel, args, (1,), threads, arch=arch), arch)
    assert cubin.spill_bytes == 0
    return text


def arguments(kernel: Any) -> list[Any]:
    n = tg.zeros(1, dtype=int)
    matrices = [tg.zeros((256, 256), dtype=HALF) for _ in range(3)]
    return {
        scale: [tg.zeros(256), n],
        count: [n],
        empty_kernel: [1],
        matmul: [*matrices, n],
        fixed_matmul: [*matrices, n],
    }[kernel]


@pytest.mark.parametrize("kernel", [scale, count, empty_kernel, matmul], ids=lambda k: k.name)
def test_a_kernel_waits_once_before_accesses_to_memory(kernel: Any) -> None:
    text = compile_to_ptx(kernel, arguments(kernel), 256)
    assert text.count(TRIGGER) == text.count(WAIT) == 1
    assert text.index(TRIGGER) < text.index(WAIT)
    match = MEMORY_ACCESS.search(text)
    assert (match is None) == (kernel is empty_kernel)
    assert match is None or text.index(WAIT) < match.start()


def test_barriers_are_initialised_before_the_wait_for_earlier_launches() -> None:
    text = compile_to_ptx(matmul, arguments(matmul), 256)
    assert text.rindex("mbarrier.init") < text.index("bar.sync") < text.index(WAIT)


def test_every_thread_waits_for_earlier_launches_before_branches() -> None:
    """Threads wait before they diverge, so that a launch completes only after earlier launches."""
    text = compile_to_ptx(scale, arguments(scale), 256)
    assert not re.search(r"@%?p\d+ bra", text[: text.index(WAIT)])


FIRST_LAUNCH, LATER_LAUNCH = LaunchOverlap(next_starts=WAITED), LaunchOverlap(waits_at_end=True)


def compile_in_series(kernel: Any, overlap: LaunchOverlap) -> str:
    lowered_kernel, compilation = run_gpu_passes(kernel, arguments(kernel), (1,), 256)
    lowered_kernel.overlap = overlap
    return assemble(lower_kernel(lowered_kernel, compilation, get_cuda_target("sm_90a")))[0]


@tg.kernel
def fixed_matmul(a: tg.array2d[HALF], b: tg.array2d[HALF], c: tg.array2d[HALF], n: tg.array1d[int]):
    left = tg.tile_pipe(shape=(64, 64), dtype=HALF, stages=3)
    right = tg.tile_pipe(shape=(64, 64), dtype=HALF, stages=3)
    with tg.ws(0):
        for k in range(4):
            tg.tile_pipe_load(left, a, offset=(0, k * 64))
            tg.tile_pipe_load(right, b, offset=(k * 64, 0))
    with tg.ws(1):
        total = tg.tile_zeros(shape=(64, 64))
        for _k in range(4):
            tg.tile_matmul(tg.tile_pipe_pop(left), tg.tile_pipe_pop(right), total)
        tg.tile_store(c, tg.tile_astype(total, HALF))


@tg.kernel
def accumulate_rows(x: tg.array2d[float], y: tg.array2d[float]):
    i = tg.tid()
    total = tg.tile_zeros(shape=256)
    for k in range(x.shape[0]):
        total += tg.tile_load(x[k], shape=256)
    tg.tile_store(y[i], total)


def test_concurrent_blocks_trigger_the_next_launch_after_their_loop() -> None:
    kernel, compilation = run_gpu_passes(accumulate_rows, [tg.zeros((4, 256)), tg.zeros((4, 256))], (1,), 256)
    kernel.overlap = LaunchOverlap(next_starts=LOOPED)
    text = assemble(lower_kernel(kernel, compilation, get_cuda_target("sm_90a")))[0]
    assert text.count(TRIGGER) == text.count(WAIT) == 1
    assert text.rindex("ld.global") < text.index(TRIGGER) < text.index("st.global")


def test_kernels_without_a_loop_trigger_the_next_launch_at_once() -> None:
    text = compile_in_series(empty_kernel, LaunchOverlap(next_starts=LOOPED))
    assert text.count(TRIGGER) == 1 and text.index(TRIGGER) < text.index(WAIT)


def test_the_first_launch_of_a_series_triggers_the_next_when_earlier_launches_are_complete() -> None:
    for kernel in (scale, matmul):
        text = compile_in_series(kernel, FIRST_LAUNCH)
        assert text.count(TRIGGER) == text.count(WAIT) == 1
        match = MEMORY_ACCESS.search(text)
        assert match is not None and text.index(WAIT) < text.index(TRIGGER) < match.start()


def test_later_launches_of_a_series_wait_at_their_end() -> None:
    """Threads without a role wait too."""
    text = compile_in_series(fixed_matmul, LATER_LAUNCH)
    assert text.count(TRIGGER) == text.count(WAIT) == 1
    first, last = text.index("cp.async.bulk.tensor"), text.rindex("cp.async.bulk")
    assert text.index(TRIGGER) < first < last < text.index(WAIT)
    assert text.rindex("bar.sync") < text.index(WAIT) < text.rindex("ret;")
    assert not re.search(r"@%?p\d+ bra", text[text.index(WAIT) :])


@pytest.mark.parametrize("kernel", [scale, count, matmul], ids=lambda k: k.name)
def test_kernels_that_read_by_loads_wait_for_earlier_launches_first(kernel: Any) -> None:
    assert compile_in_series(kernel, LATER_LAUNCH) == compile_to_ptx(kernel, arguments(kernel), 256)


def test_before_hopper_launches_do_not_overlap() -> None:
    assert "griddepcontrol" not in compile_to_ptx(scale, arguments(scale), 256, "sm_89")
