"""A store and a tile before the roles."""

import tegula as tg


@tg.kernel
def sums(x: tg.array2d[float]):
    x[0, 0] = 1.0
    total = tg.tile_sum(tg.tile_load(x, shape=(8, 8)))[0]
    with tg.ws(0):
        x[1, 1] = total


tg.launch_tiled(sums, dim=1, inputs=[tg.zeros((8, 8))])
