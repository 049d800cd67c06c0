"""Kernels with roles, and functions that compile them for a GPU."""

from __future__ import annotations

from typing import Any

import tegula as tg

M, N, K, STAGES = 128, 128, 64, 3


HALF = tg.bfloat16


@tg.kernel
def matmul(a: tg.array2d[HALF], b: tg.array2d[HALF], c: tg.array2d[HALF], steps: int):
    left = tg.tile_pipe(shape=(M, K), dtype=HALF, stages=STAGES)
    right = tg.tile_pipe(shape=(K, N), dtype=HALF, stages=STAGES)
    with tg.ws(0):
        for k in range(steps):
            tg.tile_pipe_load(left, a, offset=(0, k * K))
            tg.tile_pipe_load(right, b, offset=(k * K, 0))
    with tg.ws(1, 2):
        total = tg.tile_zeros(shape=(M, N))
        for _k in range(steps):
            tg.tile_matmul(tg.tile_pipe_pop(left), tg.tile_pipe_pop(right), total)
        tg.tile_store(c, tg.tile_astype(total, HALF))


@tg.kernel
def two_producers(a: tg.array2d[HALF], b: tg.array2d[HALF], c: tg.array2d[float], steps: int):
    left = tg.tile_pipe(shape=(M, K), dtype=HALF, stages=STAGES)
    right = tg.tile_pipe(shape=(K, N), dtype=HALF, stages=STAGES)
    with tg.role("left", warps=1):
        for k in range(steps):
            tg.tile_pipe_load(left, a, offset=(0, k * K))
    with tg.role("right", warps=1):
        for k in range(steps):
            tg.tile_pipe_load(right, b, offset=(k * K, 0))
    with tg.role("multiply", warp_groups=1):
        total = tg.tile_zeros(shape=(M, N))
        for _k in range(steps):
            tg.tile_matmul(tg.tile_pipe_pop(left), tg.tile_pipe_pop(right), total)
        tg.tile_store(c, total)


@tg.kernel
def pushed_operand(a: tg.array2d[HALF], b: tg.array2d[HALF], c: tg.array2d[float], steps: int):
    left = tg.tile_pipe(shape=(M, K), dtype=HALF, stages=STAGES)
    right = tg.tile_pipe(shape=(K, N), dtype=HALF, stages=STAGES)
    with tg.ws(0):
        for k in range(steps):
            tg.tile_pipe_load(right, b, offset=(k * K, 0))
    with tg.ws(1):
        for k in range(steps):
            tg.tile_pipe_push(left, tg.tile_load(a, shape=(M, K), offset=(0, k * K)) * HALF(2.0))
    with tg.ws(2):
        total = tg.tile_zeros(shape=(M, N))
        for _k in range(steps):
            tg.tile_matmul(tg.tile_pipe_pop(left), tg.tile_pipe_pop(right), total)
        tg.tile_store(c, total)


@tg.kernel
def chained_matmuls(a: tg.array2d[HALF], b: tg.array2d[HALF], c: tg.array2d[float], steps: int):
    left = tg.tile_pipe(shape=(M, K), dtype=HALF, stages=1)
    right = tg.tile_pipe(shape=(N, K), dtype=HALF, stages=STAGES)
    values = tg.tile_pipe(shape=(N, K), dtype=HALF, stages=STAGES)
    with tg.ws(0):
        tg.tile_pipe_load(left, a)
        for k in range(steps):
            tg.tile_pipe_load(right, b, offset=(k * N, 0))
            tg.tile_pipe_load(values, b, offset=(k * N, 0))
    with tg.ws(1, 2):
        rows, total = tg.tile_pipe_pop(left), tg.tile_zeros(shape=(M, K))
        for _k in range(steps):
            scores = tg.tile_zeros(shape=(M, N))
            tg.tile_matmul(rows, tg.tile_transpose(tg.tile_pipe_pop(right)), scores)
            tg.tile_matmul(tg.tile_astype(scores, HALF), tg.tile_pipe_pop(values), total)
        tg.tile_store(c, total)


@tg.kernel
def two_readers(a: tg.array2d[HALF], b: tg.array2d[HALF], c: tg.array2d[float], steps: int):
    left = tg.tile_pipe(shape=(64, 64), dtype=HALF, stages=STAGES)
    with tg.ws(0):
        for k in range(steps):
            tg.tile_pipe_load(left, a, offset=(0, k * 64))
    with tg.role("copies", warps=4):
        for k in range(steps):
            tg.tile_store(b, tg.tile_pipe_pop(left), offset=(0, k * 64))
    with tg.role("squares", warps=2):
        total = tg.tile_zeros(shape=(64, 64))
        for _k in range(steps):
            x = tg.tile_pipe_pop(left)
            tg.tile_matmul(x, x, total)
        tg.tile_store(c, total)


def arrays(*dtypes: Any, align: bool = True) -> list[tg.array]:
    results = [tg.zeros((256, 256 if align else 257), dtype=t) for t in dtypes]
    return results if align else [x[:, 1:] for x in results]
