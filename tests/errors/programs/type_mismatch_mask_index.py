"""The elements that a mask selects, which no tile of constant shape can hold."""

import tegula as tg


@tg.kernel
def wrong(a: tg.array1d[float]):
    t = tg.tile_load(a, shape=4)
    x = t[t > 0.0]


tg.launch_tiled(wrong, dim=1, inputs=[tg.zeros(4)], block_dim=32)
