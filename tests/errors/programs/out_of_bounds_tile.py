"""An index outside a tile, in debug mode."""

import tegula as tg


@tg.kernel
def shift(a: tg.array1d[float]):
    j = tg.tid()
    t = tg.tile_load(a, shape=8, storage="shared")
    a[j] = t[j + 1]


tg.config.mode = "debug"
tg.launch(shift, dim=8, inputs=[tg.zeros(8)], block_dim=8)
