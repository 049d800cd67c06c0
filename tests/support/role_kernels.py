"""Kernels with roles, for tests of their gradients."""

from __future__ import annotations

import tegula as tg

M, N, K = 16, 16, 8


@tg.kernel
def matmul(n: int, a: tg.array2d[float], b: tg.array2d[float], c: tg.array2d[float]):
    i, j = tg.tid()
    left = tg.tile_pipe(shape=(M, K), dtype=float, stages=3)
    right = tg.tile_pipe(shape=(K, N), dtype=float, stages=3)
    with tg.role("fetch", warps=1):
        for k in range(n):
            tg.tile_pipe_load(left, a, offset=(i * M, k * K))
            tg.tile_pipe_load(right, b, offset=(k * K, j * N))
    with tg.role("multiply", warp_groups=1):
        total = tg.tile_zeros(shape=(M, N))
        for _k in range(n):
            tg.tile_matmul(tg.tile_pipe_pop(left), tg.tile_pipe_pop(right), total)
        tg.tile_store(c, total * 2.0, offset=(i * M, j * N))


@tg.kernel
def persistent(n: int, a: tg.array2d[float], b: tg.array2d[float], c: tg.array2d[float]):
    left = tg.tile_pipe(shape=(M, K), dtype=float, stages=3)
    right = tg.tile_pipe(shape=(K, N), dtype=float, stages=3)
    rows, columns = (c.shape[0] + M - 1) // M, (c.shape[1] + N - 1) // N
    with tg.role("fetch", warps=1):
        for i, j in tg.persistent_tiles((rows, columns), raster=3):
            for k in range(n):
                tg.tile_pipe_load(left, a, offset=(i * M, k * K))
                tg.tile_pipe_load(right, b, offset=(k * K, j * N))
    with tg.role("multiply", warp_groups=1):
        for i, j in tg.persistent_tiles((rows, columns), raster=3):
            total = tg.tile_zeros(shape=(M, N))
            for _k in range(n):
                tg.tile_matmul(tg.tile_pipe_pop(left), tg.tile_pipe_pop(right), total)
            tg.tile_store(c, total * 2.0, offset=(i * M, j * N))


@tg.kernel
def pipeline_of_three_roles(x: tg.array2d[float], w: tg.array[float], y: tg.array2d[float]):
    """The second role pushes squares of the tiles that the first role loads; the third role pops a tile before its
    loop."""
    i = tg.tid()
    raw = tg.tile_pipe(shape=8, dtype=float, stages=2)
    result = tg.tile_pipe(shape=8, dtype=float, stages=2)
    scale = tg.tile_pipe(shape=8, dtype=float, stages=1)
    with tg.role("fetch", warps=1):
        tg.tile_pipe_load(scale, w, offset=0)
        for k in range(x.shape[1] // 8):
            tg.tile_pipe_load(raw, x[i], offset=k * 8)
    with tg.role("square", warps=1):
        for _k in range(x.shape[1] // 8):
            t = tg.copy(tg.tile_pipe_pop(raw))
            tg.tile_pipe_push(result, t * t)
    with tg.role("store", warps=1):
        s = tg.copy(tg.tile_pipe_pop(scale))
        for k in range(x.shape[1] // 8):
            tg.tile_store(y[i], tg.tile_pipe_pop(result) * s, offset=k * 8)
