"""A store by one thread of a role of a tile that all threads of the role hold."""

import tegula as tg


@tg.kernel
def sums(x: tg.array2d[float]):
    with tg.ws(0):
        if tg.elect():
            tg.tile_store(x, tg.tile_zeros(shape=(1, 8)))


tg.launch_tiled(sums, dim=1, inputs=[tg.zeros((8, 8))])
