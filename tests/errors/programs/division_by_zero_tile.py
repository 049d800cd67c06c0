"""A tile of integers divided by a tile with a zero, in debug mode."""

import tegula as tg


@tg.kernel
def parts(a: tg.array1d[int]):
    t = tg.tile_load(a, shape=4)
    tg.tile_store(a, t % tg.tile_load(a, shape=4))


tg.config.mode = "debug"
tg.launch_tiled(parts, dim=1, inputs=[tg.array([3, 2, 0, 1], dtype=int)], block_dim=4)
