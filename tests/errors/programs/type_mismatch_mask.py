"""A mask of floats."""

import tegula as tg


@tg.kernel
def kernel(a: tg.array1d[float], y: tg.array1d[float]):
    t = tg.tile_load(a, shape=8)
    tg.tile_store(y, t, mask=t)


tg.launch_tiled(kernel, 1, [tg.zeros(8), tg.zeros(8)], block_dim=32)
