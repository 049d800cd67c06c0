"""Kernels that are scheduled by hand."""

from __future__ import annotations

import tegula as tg

M, N, K, S = 32, 16, 8, 3


BYTES = (M * K + K * N) * 4


ROW = 32


@tg.kernel
def copies(x: tg.array2d[float], out: tg.array2d[float], n: int):
    """One thread fetches; the threads that read a stage execute a fence before they release the stage."""
    ring = tg.tile_empty(shape=(S, 1, ROW), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.ws(0):
        if tg.elect():
            for k in range(n):
                s = k % S
                tg.mbarrier_wait(empty, s, k // S + 1)
                tg.mbarrier_expect_bytes(full, s, ROW * 4)
                tg.tile_load_async(x, ring[s], (k, 0), full, s)
    with tg.ws(1):
        for k in range(n):
            s = k % S
            tg.mbarrier_wait(full, s, k // S)
            tg.tile_store(out, ring[s] * 2.0, offset=(k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)


@tg.kernel
def matmul(a: tg.array2d[float], b: tg.array2d[float], c: tg.array2d[float], n: int):
    i, j = tg.tid()
    left = tg.tile_empty(shape=(S, M, K), dtype=float, storage="shared")
    right = tg.tile_empty(shape=(S, K, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(8, stages=S)
    with tg.ws(0, registers=24):
        if tg.elect():
            for k in range(n):
                s, phase = k % S, (k // S) & 1
                tg.mbarrier_wait(empty, s, phase ^ 1)
                tg.mbarrier_expect_bytes(full, s, BYTES)
                tg.tile_load_async(a, left[s], (i * M, k * K), full, s)
                tg.tile_load_async(b, right[s], (k * K, j * N), full, s)
    with tg.ws(1, 2, registers=240):
        total = tg.tile_zeros(shape=(M, N))
        for k in range(n):
            s, phase = k % S, (k // S) & 1
            tg.mbarrier_wait(full, s, phase)
            tg.tile_matmul(left[s], right[s], total)
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)
        tg.tile_store(c, total, offset=(i * M, j * N))


@tg.kernel
def staged_out(x: tg.array2d[float], out: tg.array2d[float], n: int):
    """Results are stored by asynchronous copies from two alternating buffers."""
    stage = tg.tile_empty(shape=(2, 4, ROW), dtype=float, storage="shared")
    with tg.ws(0):
        for k in range(n):
            s = k % 2
            tg.store_wait(pending=1, read=True)
            stage[s] = tg.tile_load(x, shape=(4, ROW), offset=(4 * k, 0)) + 1.0
            tg.fence_async()
            tg.tile_store_async(out, stage[s], offset=(4 * k, 0))
            tg.store_commit()
        tg.store_wait()


@tg.kernel
def alternating_roles(x: tg.array2d[float], out: tg.array2d[float], n: int):
    """Two roles alternate; the first role begins."""
    first, second = tg.named_barrier(warps=8), tg.named_barrier(warps=8)
    with tg.ws(0):
        for k in range(n):
            tg.named_barrier_sync(first)
            tg.tile_store(out, tg.tile_load(x, shape=(1, ROW), offset=(2 * k, 0)), offset=(2 * k, 0))
            tg.named_barrier_arrive(second)
    with tg.ws(1):
        tg.named_barrier_arrive(first)
        for k in range(n):
            tg.named_barrier_sync(second)
            row = tg.tile_load(x, shape=(1, ROW), offset=(2 * k + 1, 0))
            tg.tile_store(out, row, offset=(2 * k + 1, 0))
            tg.named_barrier_arrive(first)


@tg.kernel
def one_buffer(x: tg.array2d[float], out: tg.array2d[float], n: int):
    """A tile without stages that threads of one role write and threads of another role read."""
    tile = tg.tile_empty(shape=(1, ROW), dtype=float, storage="shared")
    full, empty = tg.mbarrier(4), tg.mbarrier(4)
    with tg.ws(0):
        for k in range(n):
            tg.mbarrier_wait(empty, 0, k + 1)
            tile[:, :] = tg.tile_load(x, shape=(1, ROW), offset=(k, 0)) * 3.0
            tg.mbarrier_arrive(full)
    with tg.ws(1):
        for k in range(n):
            tg.mbarrier_wait(full, 0, k)
            tg.tile_store(out, tile, offset=(k, 0))
            tg.mbarrier_arrive(empty)
