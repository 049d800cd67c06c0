"""Shared memory of tiles that are not live any more is reused, without additional barriers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lowering import agrees, barriers, lowered, tiled

import tegula as tg
from support.campaigns import sampled
from tegula.passes import pipeline_gpu


@tg.kernel
def chain(a: tg.array2d[float], o: tg.array2d[float]):
    t = tg.tile_load(a, shape=(16, 16))
    for _ in (0, 1, 2, 3):
        t = tg.tile_transpose(t) * 2.0 + t
    tg.tile_store(o, t)


@tg.kernel
def network(a: tg.array[float], o: tg.array[float]):
    t, n = tg.tile_load(a, shape=16), tg.tile_arange(16, dtype=int)
    for size in (2, 4, 8, 16):
        for step in (8, 4, 2, 1):
            if step < size:
                partner = t[n ^ step]
                low = ((n & step) == 0) == ((n & size) == 0)
                t = tg.where(low, tg.min(t, partner), tg.max(t, partner))
    tg.tile_store(o, t)


@tg.kernel
def tiles_in_a_loop(a: tg.array2d[float], o: tg.array2d[float]):
    t = tg.tile_load(a, shape=(16, 16))
    for _ in range(3):
        t = tg.tile_transpose(t) * 0.5 + t
        s = tg.tile_sum(t)
        t = tg.tile_transpose(t) - s[0]
    tg.tile_store(o, tg.tile_transpose(t))


NUMBERS = tg.array(np.random.default_rng(0).permutation(256).astype(np.float32))
CASES: dict[str, tuple[Any, list[Any], int]] = {
    "chain": (chain, [tg.array(NUMBERS.numpy().reshape(16, 16)), tg.zeros((16, 16))], 2048),
    "network": (network, [NUMBERS, tg.zeros(16)], 512),
    "tiles_in_a_loop": (
        tiles_in_a_loop,
        [tg.array(NUMBERS.numpy().reshape(16, 16)), tg.zeros((16, 16))],
        3200,
    ),
}


@pytest.mark.parametrize("threads", [32, 128])
@sampled(3, "name", CASES)
def test_shared_memory_is_reused_without_more_barriers(
    name: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, args, max_bytes = CASES[name]
    launch = tiled(kernel, args, (1,), threads)
    actual, compilation = agrees(launch)
    other_passes = tuple(step for step in pipeline_gpu.FOR_GPU if step.name != "reuse_shared")
    monkeypatch.setattr(pipeline_gpu, "FOR_GPU", other_passes)
    kernel_without_reuse, compilation_without_reuse = lowered(launch)
    assert len(barriers(actual)) == len(barriers(kernel_without_reuse))
    assert compilation.shared.plan.total <= min(max_bytes, compilation_without_reuse.shared.plan.total)


@tg.kernel
def counted(n: int, o: tg.array[int]):
    b, j = tg.tid()
    s = tg.tile_stack(3, int)
    x = j
    for _ in range(n):
        t = tg.tile_empty(160, dtype=int, storage="shared")
        t[(j + 1) % 5] = x
        x += t[(j + 2) % 5]
        tg.tile_stack_push(s, x, j > 0)
    v, slot = tg.tile_stack_pop(s)
    o[j] = x + v + slot


@pytest.mark.parametrize("threads", [5, 32, 64])
def test_votes_of_a_push_are_read_before_their_bytes_are_reused(memory: str, threads: int) -> None:
    """The order holds also in a block of one warp, whose first thread reads counts that it has written itself."""
    agrees(tiled(counted, [3, tg.zeros(threads, dtype=int)], (1,), threads))


@tg.kernel
def stages(a: tg.array2d[tg.vec2f], o: tg.array2d[tg.vec2f]):
    i = tg.tid()
    t = tg.tile_load(a[i], shape=4096)
    tg.tile_fft(t)
    tg.tile_store(o[i], t)


def test_results_reuse_the_memory_of_operands_if_more_threads_become_resident() -> None:
    """Each stage of a transform synchronises once more, and a block has one buffer instead of two."""
    args = [tg.zeros((2, 4096), dtype=tg.vec2f), tg.zeros((2, 4096), dtype=tg.vec2f)]
    _, compilation = lowered(tiled(stages, args, (2,), 256))
    assert compilation.shared.plan.total < 1.25 * 4096 * 8
