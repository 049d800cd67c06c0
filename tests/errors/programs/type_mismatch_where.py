"""A select whose condition is a tile of floats."""

import tegula as tg


@tg.kernel
def positive(a: tg.array1d[float]):
    t = tg.tile_load(a, shape=4)
    tg.tile_store(a, tg.where(t, t, 0.0))


tg.launch_tiled(positive, dim=1, inputs=[tg.zeros(4)], block_dim=4)
