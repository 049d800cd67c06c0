"""Tiles of two types are joined."""

import tegula as tg


@tg.kernel
def join(a: tg.array1d[float]):
    t = tg.tile_load(a, shape=4)
    u = tg.tile_concat((t, tg.tile_zeros(shape=4, dtype=tg.float64)))
    tg.tile_store(a, u)


tg.launch_tiled(join, dim=1, inputs=[tg.zeros(8)], block_dim=4)
