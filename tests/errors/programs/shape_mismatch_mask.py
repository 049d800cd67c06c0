"""A mask that does not broadcast to the tile."""

import tegula as tg


@tg.kernel
def kernel(a: tg.array2d[float], y: tg.array2d[float]):
    rows = tg.tile_arange(4, dtype=int) < 2
    tg.tile_store(y, tg.tile_load(a, shape=(4, 8), mask=rows))


tg.launch_tiled(kernel, 1, [tg.zeros((4, 8)), tg.zeros((4, 8))], block_dim=32)
