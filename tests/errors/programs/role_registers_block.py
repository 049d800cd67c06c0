"""Register budgets that are more than a block starts with, though no more than a multiprocessor has."""

import tegula as tg


@tg.kernel
def starts(x: tg.array2d[float]):
    with tg.ws(0, registers=24):
        tg.tile_store(x, tg.tile_ones(shape=(8, 8)))
    with tg.ws(1, registers=240):
        tg.tile_store(x, tg.tile_zeros(shape=(8, 8)))
    with tg.ws(2, registers=248):
        tg.tile_store(x, tg.tile_zeros(shape=(8, 8)))


tg.launch_tiled(starts, dim=1, inputs=[tg.zeros((8, 8))])
