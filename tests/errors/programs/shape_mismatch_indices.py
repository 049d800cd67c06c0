"""Fewer indices than elements along their axis."""

import tegula as tg


@tg.kernel
def kernel(a: tg.array2d[float], y: tg.array2d[float]):
    rows = tg.tile_arange(4, dtype=int) * 2
    tg.tile_store(y, tg.tile_load_indexed(a, rows, shape=(4, 8), axis=1))


tg.launch_tiled(kernel, 1, [tg.zeros((4, 8)), tg.zeros((4, 8))], block_dim=32)
