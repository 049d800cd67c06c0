"""Persistent matmuls whose two consumers are one role of two warp groups, or two roles."""

from __future__ import annotations

from typing import Any

import tegula as tg

BM, BN, BK, STAGES = 128, 256, 64, 4
HALF = tg.bfloat16


@tg.kernel
def one_consumer_role(a: tg.array2d[HALF], b: tg.array2d[HALF], c: tg.array2d[HALF]):
    left = tg.tile_pipe(shape=(BM, BK), dtype=HALF, stages=STAGES)
    right = tg.tile_pipe(shape=(BK, BN), dtype=HALF, stages=STAGES)
    grid, steps = ((c.shape[0] + BM - 1) // BM, (c.shape[1] + BN - 1) // BN), (a.shape[1] + BK - 1) // BK
    with tg.ws(0, registers=24):
        for i, j in tg.persistent_tiles(grid, raster=8):
            for k in range(steps):
                tg.tile_pipe_load(left, a, offset=(i * BM, k * BK))
                tg.tile_pipe_load(right, b, offset=(k * BK, j * BN))
    with tg.ws(1, 2, registers=240):
        for i, j in tg.persistent_tiles(grid, raster=8):
            total = tg.tile_zeros(shape=(BM, BN), dtype=tg.float32)
            for _k in range(steps):
                tg.tile_matmul(tg.tile_pipe_pop(left), tg.tile_pipe_pop(right), total)
            tg.tile_store(c, tg.tile_astype(total, HALF), offset=(i * BM, j * BN))


@tg.kernel
def two_consumer_roles(a: tg.array2d[HALF], b: tg.array2d[HALF], c: tg.array2d[HALF]):
    upper = tg.tile_pipe(shape=(BM // 2, BK), dtype=HALF, stages=STAGES)
    lower = tg.tile_pipe(shape=(BM // 2, BK), dtype=HALF, stages=STAGES)
    right = tg.tile_pipe(shape=(BK, BN), dtype=HALF, stages=STAGES)
    grid, steps = ((c.shape[0] + BM - 1) // BM, (c.shape[1] + BN - 1) // BN), (a.shape[1] + BK - 1) // BK
    with tg.ws(0, registers=24):
        for i, j in tg.persistent_tiles(grid, raster=8):
            for k in range(steps):
                tg.tile_pipe_load(upper, a, offset=(i * BM, k * BK))
                tg.tile_pipe_load(lower, a, offset=(i * BM + BM // 2, k * BK))
                tg.tile_pipe_load(right, b, offset=(k * BK, j * BN))
    with tg.ws(1, registers=240):
        for i, j in tg.persistent_tiles(grid, raster=8):
            total = tg.tile_zeros(shape=(BM // 2, BN), dtype=tg.float32)
            for _k in range(steps):
                tg.tile_matmul(tg.tile_pipe_pop(upper), tg.tile_pipe_pop(right), total)
            tg.tile_store(c, tg.tile_astype(total, HALF), offset=(i * BM, j * BN))
    with tg.ws(2, registers=240):
        for i, j in tg.persistent_tiles(grid, raster=8):
            total = tg.tile_zeros(shape=(BM // 2, BN), dtype=tg.float32)
            for _k in range(steps):
                tg.tile_matmul(tg.tile_pipe_pop(lower), tg.tile_pipe_pop(right), total)
            tg.tile_store(c, tg.tile_astype(total, HALF), offset=(i * BM + BM // 2, j * BN))


def blocks(m: int, n: int, multiprocessors: int) -> int:
    """The number of blocks of a launch."""
    return min(multiprocessors, -(-m // BM) * -(-n // BN))


KERNELS: dict[str, Any] = {"merged": one_consumer_role, "separate": two_consumer_roles}
