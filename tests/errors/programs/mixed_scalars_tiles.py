"""Tiles of two element types."""

import tegula as tg


@tg.kernel
def shift(a: tg.array1d[float], b: tg.array1d[int]):
    x = tg.tile_load(a, shape=4)
    y = tg.tile_load(b, shape=4)
    tg.tile_store(a, x + y)


tg.launch_tiled(shift, dim=1, inputs=[tg.zeros(4), tg.zeros(4, dtype=int)], block_dim=4)
