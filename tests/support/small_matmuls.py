"""Kernels with roles that multiply small tiles."""

from __future__ import annotations

import tegula as tg

M, N, K = 32, 16, 8


@tg.kernel
def one_consumer(a: tg.array2d[float], b: tg.array2d[float], c: tg.array2d[float], n: int):
    i, j = tg.tid()
    left = tg.tile_pipe(shape=(M, K), dtype=float, stages=3)
    right = tg.tile_pipe(shape=(K, N), dtype=float, stages=3)
    with tg.ws(0, registers=24):
        for k in range(n):
            tg.tile_pipe_load(left, a, offset=(i * M, k * K))
            tg.tile_pipe_load(right, b, offset=(k * K, j * N))
    with tg.ws(1, registers=240):
        total = tg.tile_zeros(shape=(M, N))
        for _k in range(n):
            x, y = tg.tile_pipe_pop(left), tg.tile_pipe_pop(right)
            tg.tile_matmul(x, y, total)
        tg.tile_store(c, total, offset=(i * M, j * N))


@tg.kernel
def separate_consumers(a: tg.array2d[float], b: tg.array2d[float], c: tg.array2d[float], n: int):
    i, j = tg.tid()
    upper = tg.tile_pipe(shape=(M // 2, K), dtype=float, stages=3)
    lower = tg.tile_pipe(shape=(M // 2, K), dtype=float, stages=3)
    right = tg.tile_pipe(shape=(K, N), dtype=float, stages=3)
    with tg.ws(0, registers=24):
        for k in range(n):
            tg.tile_pipe_load(upper, a, offset=(i * M, k * K))
            tg.tile_pipe_load(lower, a, offset=(i * M + M // 2, k * K))
            tg.tile_pipe_load(right, b, offset=(k * K, j * N))
    with tg.ws(1, registers=240):
        total = tg.tile_zeros(shape=(M // 2, N))
        for _k in range(n):
            tg.tile_matmul(tg.tile_pipe_pop(upper), tg.tile_pipe_pop(right), total)
        tg.tile_store(c, total, offset=(i * M, j * N))
    with tg.ws(2, registers=240):
        total = tg.tile_zeros(shape=(M // 2, N))
        for _k in range(n):
            tg.tile_matmul(tg.tile_pipe_pop(lower), tg.tile_pipe_pop(right), total)
        tg.tile_store(c, total, offset=(i * M + M // 2, j * N))


@tg.kernel
def merged_two(a: tg.array2d[float], b: tg.array2d[float], c: tg.array2d[float], n: int):
    i, j = tg.tid()
    left = tg.tile_pipe(shape=(M, K), dtype=float, stages=3)
    right = tg.tile_pipe(shape=(K, N), dtype=float, stages=3)
    with tg.ws(0, registers=24):
        for k in range(n):
            tg.tile_pipe_load(left, a, offset=(i * M, k * K))
            tg.tile_pipe_load(right, b, offset=(k * K, j * N))
    with tg.ws(1, 2, registers=240):
        total = tg.tile_zeros(shape=(M, N))
        for _k in range(n):
            tg.tile_matmul(tg.tile_pipe_pop(left), tg.tile_pipe_pop(right), total)
        tg.tile_store(c, total, offset=(i * M, j * N))


@tg.kernel
def merged_three(a: tg.array2d[float], b: tg.array2d[float], c: tg.array2d[float], n: int):
    i, j = tg.tid()
    left = tg.tile_pipe(shape=(M, K), dtype=float, stages=3)
    right = tg.tile_pipe(shape=(K, N), dtype=float, stages=3)
    with tg.role("fetch", warps=1, registers=32):
        for k in range(n):
            tg.tile_pipe_load(left, a, offset=(i * M, k * K))
            tg.tile_pipe_load(right, b, offset=(k * K, j * N))
    with tg.role("multiply", warp_groups=3, registers=160):
        total = tg.tile_zeros(shape=(M, N))
        for _k in range(n):
            tg.tile_matmul(tg.tile_pipe_pop(left), tg.tile_pipe_pop(right), total)
        tg.tile_store(c, total, offset=(i * M, j * N))


KERNELS = [one_consumer, separate_consumers, merged_two, merged_three]
