"""Fences and the memory orders of atomics: results, refusals, and the order of memory accesses of threads on a GPU."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from agreement import agree
from gpu_code import assemble
from lowering import Launch, run_lowered
from lowering import lowered as lower_to_threads

import tegula as tg
from tegula.codegen.gpu import lower_kernel
from tegula.errors import NoGradient, TypeMismatch
from tegula.target import get_cuda_target

BLOCKS, N = 4, 64


@tg.kernel
def sum_blocks(x: tg.array[float], parts: tg.array[float], done: tg.array[int], out: tg.array[float]):
    b, t = tg.tid()
    tg.tile_store(parts, tg.tile_sum(tg.tile_load(x, shape=N, offset=b * N)), offset=b)
    before = 0
    if t == 0:
        before = tg.atomic_add(done, 0, 1, order="acq_rel")
    if tg.uniform(before) == BLOCKS - 1:
        tg.tile_store(out, tg.tile_sum(tg.tile_load(parts, shape=BLOCKS)))


@tg.kernel
def thread_fences(a: tg.array[int], b: tg.array[int]):
    i = tg.tid()
    b[i] = i
    tg.fence("release")
    if tg.atomic_exch(a, i, 1, order="release") == 0:
        tg.fence()
        b[i] += tg.atomic_cas(a, i, 1, 5, order="acquire")


def arguments() -> list[Any]:
    x = tg.array(np.arange(BLOCKS * N, dtype=np.float32))
    return [x, tg.zeros(BLOCKS), tg.zeros(1, dtype=int), tg.zeros(1)]


@pytest.mark.machine_code
def test_the_last_block_reads_the_stores_of_other_blocks_after_a_fence() -> None:
    args = arguments()
    tg.launch_tiled(sum_blocks, dim=[BLOCKS], inputs=args, block_dim=N)
    assert args[3].numpy()[0] == sum(range(BLOCKS * N))


@pytest.mark.machine_code
def test_memory_orders_change_no_result_of_one_thread() -> None:
    a, b = agree(thread_fences, [tg.zeros(9, dtype=int), tg.zeros(9, dtype=int)], 9, 9)
    assert a.tolist() == [5] * 9 and b.tolist() == [i + 1 for i in range(9)]


def instructions(kernel: Any, args: Sequence[Any], dims: tuple[int, ...], block_dim: int) -> str:
    """The barriers, fences and accesses of global memory in PTX, in order."""
    code = lower_to_threads(Launch(kernel, args, dims, block_dim))
    text = assemble(lower_kernel(*code, get_cuda_target()))[0]
    accesses = re.findall(r"bar\.sync|fence\S*gpu|atom\.\S*?(?:add|exch|cas)|(?:ld|st)\.global", text)
    return " ".join(re.sub(r"atom\..*\.", "atom.", x) for x in accesses)


def test_tile_functions_are_not_moved_over_a_fence() -> None:
    actual = instructions(sum_blocks, arguments(), (BLOCKS, N), N)
    part = "st.global bar.sync fence.acq_rel.gpu atom.add fence.acq_rel.gpu"
    assert part in actual, actual
    after = actual.split(part)[1]
    assert re.match(r"( bar\.sync)+ ld\.global", after), actual
    launch = Launch(sum_blocks, arguments(), (BLOCKS, N), N)
    assert run_lowered(*lower_to_threads(launch), launch)[0][3][0] == sum(range(BLOCKS * N))


def test_thread_fences_become_fence_instructions() -> None:
    actual = instructions(thread_fences, [tg.zeros(9, dtype=int), tg.zeros(9, dtype=int)], (32,), 32)
    fence = "fence.acq_rel.gpu"
    # Two fences in a row are one; `+=` of an element of an array is an atomic addition.
    assert actual == f"st.global {fence} atom.exch {fence} atom.cas {fence} atom.add"


def test_unknown_memory_orders_are_refused() -> None:
    @tg.kernel
    def relaxed(a: tg.array[int]):
        tg.fence("relaxed")

    @tg.kernel
    def sequential(a: tg.array[int]):
        tg.atomic_add(a, 0, 1, order="seq_cst")

    for kernel, orders in (
        (relaxed, '"acquire", "release", "acq_rel"'),
        (sequential, '"relaxed", "acquire"'),
    ):
        with pytest.raises(TypeMismatch) as raised:
            tg.launch(kernel, 1, [tg.zeros(1, dtype=int)])
        assert f"a memory order must be one of {orders}" in str(raised.value)


@pytest.mark.machine_code
def test_gradients_of_atomics_with_a_memory_order_are_refused() -> None:
    @tg.kernel
    def scale(x: tg.array[float], y: tg.array[float]):
        i = tg.tid()
        tg.atomic_add(y, i, 2.0 * x[i], order="release")

    x, y = tg.ones(4, requires_grad=True), tg.zeros(4, requires_grad=True)
    with pytest.raises(NoGradient, match="blocks that wait for each other have no adjoint"):
        with tg.Tape() as tape:
            tg.launch(scale, 4, [x, y])
        tape.backward(grads={y: tg.ones(4)})
