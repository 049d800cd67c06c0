"""A role that uses a tile from before the roles."""

import tegula as tg


@tg.kernel
def sums(x: tg.array2d[float]):
    total = tg.tile_zeros(shape=(8, 8))
    with tg.ws(0):
        tg.tile_store(x, total)


tg.launch_tiled(sums, dim=1, inputs=[tg.zeros((8, 8))])
