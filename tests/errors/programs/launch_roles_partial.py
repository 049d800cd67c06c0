"""A launch of roles with part of a block."""

import tegula as tg


@tg.kernel
def sums(x: tg.array2d[float]):
    with tg.ws(0):
        tg.tile_store(x, tg.tile_ones(shape=(8, 8)))


tg.launch(sums, dim=100, inputs=[tg.zeros((8, 8))])
