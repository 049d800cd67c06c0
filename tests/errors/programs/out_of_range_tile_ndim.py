"""A tile of 1 dimension from an array of 2."""

import tegula as tg


@tg.kernel
def copy(a: tg.array2d[float]):
    t = tg.tile_load(a, shape=4)
    tg.tile_store(a[0], t)


tg.launch_tiled(copy, dim=1, inputs=[tg.zeros((4, 4))], block_dim=4)
