"""Kernels whose lanes exchange values in segments, and their arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

import tegula as tg


@tg.kernel
def within_warps(a: tg.array[float], n: tg.array[int], o: tg.array2d[float], q: tg.array2d[tg.uint32]):
    i = tg.tid()
    x = a[i]
    k = n[i]
    o[0, i] = tg.lane_shuffle(x, k)
    o[1, i] = tg.lane_xor(x, 5, 8)
    o[2, i] = tg.lane_sum(x, 16)
    o[3, i] = tg.lane_max(x)
    o[4, i] = tg.lane_min(x, 4)
    o[5, i] = float(tg.lane_argmax(x))
    o[6, i] = float(tg.lane_argmin(x, 2))
    v = tg.lane_shuffle(tg.vector(x, 2.0 * x), k + 1, 4)
    o[7, i] = v[0] - v[1]
    o[8, i] = tg.lane_collect(x, k, 8) + tg.lane_collect(x, 3, 16)
    q[0, i] = tg.lane_ballot(x > 3.0)
    q[1, i] = tg.match_any(k % 3, 16)
    q[2, i] = tg.uint32(tg.lane_sum(k))
    q[3, i] = tg.uint32(tg.lane_max(k, 8))
    q[4, i] = tg.uint32(tg.lane_min(tg.int16(k)))
    q[5, i] = tg.lane_ballot(k > 0, 1) + tg.match_any(tg.int64(k), 8)
    q[6, i] = tg.uint32(tg.lane_xor(tg.int64(k), n[0], 16))
    q[7, i] = tg.uint32(tg.lane_sum(2, 32))


@tg.kernel
def across_warps(a: tg.array[float], n: tg.array[int], o: tg.array2d[float], q: tg.array2d[tg.uint32]):
    i = tg.tid()
    x = a[i]
    k = n[i]
    o[0, i] = tg.lane_shuffle(x, k, 64)
    o[1, i] = tg.lane_xor(x, 33, 64)
    o[2, i] = tg.lane_sum(x, 128)
    o[3, i] = tg.lane_max(x, 64)
    o[4, i] = float(tg.lane_argmin(x, 128))
    v = tg.lane_xor(tg.vector(x, 2.0 * x), n[0], 256)
    o[5, i] = v[0] - v[1]
    o[6, i] = tg.lane_collect(x, k, 64)
    q[0, i] = tg.uint32(tg.lane_min(k, 512))
    q[1, i] = tg.uint32(tg.lane_shuffle(k, 3, 64))


ROWS = {within_warps: (9, 8), across_warps: (7, 2)}
SHAPES = ((100, 48), (96, 96), (70, 32), (130, 128))
"""The numbers of threads of a launch and of a block: the last warp of each block, no warp, or the last block is
partial."""


def arguments(kernel: Any, threads: int) -> list[Any]:
    """The arguments of a kernel: small integers, whose sums are exact in any order."""
    rng = np.random.default_rng(threads)
    a = tg.array(rng.integers(-8, 9, threads).astype(np.float32))
    n = tg.array(rng.integers(-100, 100, threads).astype(np.int32))
    floats, words = ROWS[kernel]
    return [a, n, tg.zeros((floats, threads)), tg.zeros((words, threads), dtype=tg.uint32)]
