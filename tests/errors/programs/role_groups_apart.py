"""A role over warp groups that are not adjacent."""

import tegula as tg


@tg.kernel
def sums(x: tg.array2d[float]):
    with tg.ws(1):
        tg.tile_store(x, tg.tile_ones(shape=(8, 8)))
    with tg.ws(0, 2):
        tg.tile_store(x, tg.tile_zeros(shape=(8, 8)))


tg.launch_tiled(sums, dim=1, inputs=[tg.zeros((8, 8))])
