"""A block size that the roles do not have."""

import tegula as tg


@tg.kernel
def sums(x: tg.array2d[float]):
    with tg.ws(0):
        tg.tile_store(x, tg.tile_ones(shape=(8, 8)))


tg.launch_tiled(sums, dim=1, inputs=[tg.zeros((8, 8))], block_dim=256)
