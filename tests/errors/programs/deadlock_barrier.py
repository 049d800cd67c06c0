"""A wait for more arrivals than the roles execute."""

import tegula as tg


@tg.kernel
def sums(x: tg.array2d[float]):
    tile = tg.tile_empty(shape=(1, 8), dtype=float, storage="shared")
    full = tg.mbarrier(8)
    with tg.ws(0):
        tile[:, :] = tg.tile_load(x, shape=(1, 8))
        tg.mbarrier_arrive(full)
    with tg.ws(1):
        tg.mbarrier_wait(full, 0, 0)
        tg.tile_store(x, tile)


tg.launch_tiled(sums, dim=1, inputs=[tg.zeros((8, 8))])
