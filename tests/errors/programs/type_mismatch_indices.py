"""Floats as indices."""

import tegula as tg


@tg.kernel
def kernel(a: tg.array1d[float], y: tg.array1d[float]):
    t = tg.tile_load(a, shape=8)
    tg.tile_store_indexed(y, t, t)


tg.launch_tiled(kernel, 1, [tg.zeros(8), tg.zeros(8)], block_dim=32)
