"""More warp groups than a block has."""

import tegula as tg


@tg.kernel
def sums(x: tg.array2d[float]):
    with tg.role("a", warp_groups=6):
        tg.tile_store(x, tg.tile_ones(shape=(8, 8)))
    with tg.role("b", warp_groups=3):
        tg.tile_store(x, tg.tile_zeros(shape=(8, 8)))


tg.launch_tiled(sums, dim=1, inputs=[tg.zeros((8, 8))])
