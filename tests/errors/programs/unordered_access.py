"""Threads that read elements which other threads write, with no point where the block can synchronise."""

import tegula as tg


@tg.kernel
def smooth(a: tg.array1d[float]):
    j = tg.tid()
    t = tg.tile_load(a, shape=64, storage="shared")
    if a[j] > 0.0:
        x = t[63 - j]
        t[j] = x * 0.5
    tg.tile_store(a, t)


tg.launch(smooth, dim=64, inputs=[tg.zeros(64)], block_dim=64)
