"""A tile assigned by some threads only."""

import tegula as tg


@tg.kernel
def choose(a: tg.array1d[float]):
    i = tg.tid()
    x = tg.tile_load(a, shape=8)
    y = tg.tile_zeros(shape=8)
    if a[i] > 0.0:
        y = x
    tg.tile_store(a, y)


tg.launch(choose, dim=64, inputs=[tg.zeros(64)], block_dim=32)
