"""A dimension that the tile does not have is squeezed."""

import tegula as tg


@tg.kernel
def flatten(a: tg.array2d[float]):
    t = tg.tile_load(a, shape=(1, 4))
    tg.tile_store(a[0], tg.tile_squeeze(t, axis=7))


tg.launch_tiled(flatten, dim=1, inputs=[tg.zeros((4, 4))], block_dim=4)
