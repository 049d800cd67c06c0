"""Two roles of one warp group with different register budgets."""

import tegula as tg


@tg.kernel
def sums(x: tg.array2d[float]):
    with tg.role("a", warps=1, registers=24):
        tg.tile_store(x, tg.tile_ones(shape=(8, 8)))
    with tg.role("b", warps=2, registers=40):
        tg.tile_store(x, tg.tile_zeros(shape=(8, 8)))


tg.launch_tiled(sums, dim=1, inputs=[tg.zeros((8, 8))])
