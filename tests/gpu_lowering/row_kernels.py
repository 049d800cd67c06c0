"""Kernels that work on the rows of a matrix one after another, or with the next row loaded ahead."""

from __future__ import annotations

import tegula as tg

WIDTH = tg.constant(32)


@tg.func
def smooth_function(x: float):
    return tg.sin(x) + tg.sqrt(tg.abs(x)) / (tg.abs(x) + 1.0)


@tg.kernel
def each_row(a: tg.array2d[float], b: tg.array2d[float], n: int):
    for i in range(n):
        x = tg.tile_load(a, shape=(1, WIDTH), offset=(i, 5))
        tg.tile_store(b, tg.tile_map(smooth_function, x), offset=(i, 3))


@tg.kernel
def load_next_row(a: tg.array2d[float], b: tg.array2d[float], n: int):
    x = tg.tile_load(a, shape=(1, WIDTH), offset=(0, 0))
    for i in range(1, n):
        y = tg.tile_load(a, shape=(1, WIDTH), offset=(i, 0))
        x = tg.tile_map(smooth_function, x)
        tg.tile_store(b, x, offset=(i - 1, 0))
        x = y
    tg.tile_store(b, tg.tile_map(smooth_function, x), offset=(n - 1, 0))
