"""An operator on tiles under a divergent condition."""

import tegula as tg


@tg.kernel
def add(a: tg.array1d[float]):
    i = tg.tid()
    t = tg.tile_load(a, shape=8)
    if a[i] > 0.0:
        t = t + t
    tg.tile_store(a, t)


tg.launch(add, dim=64, inputs=[tg.zeros(64)], block_dim=32)
