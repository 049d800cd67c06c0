"""If all conflicting accesses are in one warp, a barrier of warps replaces the barrier of the block. Each barrier of
warps is needed, and no barrier of the block could be a barrier of warps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from agreement import agree
from lowering import Launch, agrees, barriers, lowered, run_lowered, tiled

import tegula as tg
from support.campaigns import sampled
from tegula.codegen.gpu import lower_kernel
from tegula.interp import DataRace
from tegula.ir import Kernel
from tegula.target import get_cuda_target

N = 128


@tg.kernel
def pairs(a: tg.array[float]):
    b, p = tg.tid()
    s = tg.tile_load(a, shape=N, storage="shared")
    for size in (2, 4, 8, 16, 32, 64, 128):
        for step in (64, 32, 16, 8, 4, 2, 1):
            if step < size and p < N // 2:
                i = 2 * p - (p & (step - 1))
                x, y = s[i], s[i + step]
                if (x > y) == ((i & size) == 0):
                    s[i] = y
                    s[i + step] = x
    tg.tile_store(a, s)


@tg.kernel
def flipped(a: tg.array[float]):
    b, p = tg.tid()
    s = tg.tile_load(a, shape=N, storage="shared")
    size = 2
    while size <= N:
        step = size // 2
        while step > 0:
            j = p ^ step
            if j > p:
                x, y = s[p], s[j]
                if (x > y) == ((p & size) == 0):
                    s[p] = y
                    s[j] = x
            step = step // 2
        size = size * 2
    tg.tile_store(a, s)


@tg.kernel
def rows(a: tg.array[float]):
    """Each warp reverses its own row several times."""
    b, p = tg.tid()
    row, column = p // 32, p % 32
    s = tg.tile_zeros(shape=(4, 32), storage="shared")
    s[row, column] = a[p]
    for k in range(1, 6):
        s[row, column] = s[row, (column + k) % 32] + 1.0
    a[p] = s[row, 31 - column]


@tg.kernel
def own_elements(a: tg.array[float]):
    """Each thread has its own element."""
    b, p = tg.tid()
    s = tg.tile_zeros(shape=N, storage="shared")
    for k in range(4):
        s[p] = s[p] * 2.0 + a[(p + k) % N]
        if s[p] > 100.0:
            s[p] = 0.0
    a[p] = s[p]


def launch(kernel: Any, threads: int) -> Launch:
    x = np.random.default_rng(0).permutation(N).astype(np.float32)
    return tiled(kernel, [tg.array(x)], (1,), threads)


CASES = {
    "pairs": (pairs, 64, 2, 25),
    "flipped": (flipped, 128, 2, 0),
    "rows": (rows, 128, 0, 3),
    "own elements": (own_elements, 128, 0, 0),
}
"""A kernel, its threads, and how often its block and its warps synchronise."""


def races(kernel: Kernel, compilation: Any, program_launch: Launch) -> bool:
    try:
        run_lowered(kernel, compilation, program_launch)
    except DataRace:
        return True
    return False


@sampled(2, "name", CASES)
def test_accesses_within_a_warp_need_warp_barriers_only(name: str) -> None:
    program, threads, block_barriers, warp_barriers = CASES[name]
    race_free = launch(program, threads)
    kernel, compilation = agrees(race_free)
    actual = barriers(kernel)
    assert (sum(not b.of_warps for b in actual), sum(b.of_warps for b in actual)) == (
        block_barriers,
        warp_barriers,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pairs", "rows"])
def test_programs_race_without_any_one_barrier(name: str) -> None:
    program, threads, _, _ = CASES[name]
    program_launch = launch(program, threads)
    kernel, compilation = lowered(program_launch)
    actual = barriers(kernel)
    for barrier in actual[:: max(1, len(actual) // 5)]:
        assert barrier.parent is not None
        position = barrier.parent.ops.index(barrier)
        if barrier.of_warps:
            del barrier.parent.ops[position]
            assert races(kernel, compilation, program_launch), barrier
            barrier.parent.ops.insert(position, barrier)
        else:
            barrier.of_warps = True
            assert races(kernel, compilation, program_launch), barrier
            del barrier.of_warps


@pytest.mark.machine_code
@pytest.mark.parametrize("program", [pairs, flipped])
def test_sorting_networks_sort(program: Any) -> None:
    for threads in (128, 64) if program is pairs else (128,):
        network_launch = launch(program, threads)
        (actual,) = agree(program, network_launch.args, 1, threads, tiled=True)
        np.testing.assert_array_equal(actual, np.arange(N))


@tg.kernel
def one_warp(a: tg.array[float]):
    b, p = tg.tid()
    s = tg.tile_load(a, shape=64, storage="shared")
    for size in (2, 4, 8, 16, 32, 64):
        for step in (32, 16, 8, 4, 2, 1):
            if step < size:
                i = 2 * p - (p & (step - 1))
                x, y = s[i], s[i + step]
                if (x > y) == ((i & size) == 0):
                    s[i] = y
                    s[i + step] = x
    tg.tile_store(a, s)


def test_a_block_of_one_warp_has_no_barrier() -> None:
    warp_launch = tiled(one_warp, [tg.array(np.arange(64, dtype=np.float32))], (1,), 32)
    text = lower_kernel(*agrees(warp_launch), get_cuda_target()).text
    assert "bar.warp.sync" in text and "barrier.cta" not in text
