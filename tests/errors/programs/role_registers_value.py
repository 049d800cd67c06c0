"""A register budget that the hardware does not have."""

import tegula as tg


@tg.kernel
def sums(x: tg.array2d[float]):
    with tg.ws(0, registers=100):
        tg.tile_store(x, tg.tile_ones(shape=(8, 8)))


tg.launch_tiled(sums, dim=1, inputs=[tg.zeros((8, 8))])
