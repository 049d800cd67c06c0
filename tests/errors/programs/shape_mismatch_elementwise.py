"""Tiles of two shapes."""

import tegula as tg


@tg.kernel
def add(a: tg.array1d[float]):
    x = tg.tile_load(a, shape=8)
    y = tg.tile_load(a, shape=5)
    tg.tile_store(a, x + y)


tg.launch_tiled(add, dim=1, inputs=[tg.zeros(8)], block_dim=4)
