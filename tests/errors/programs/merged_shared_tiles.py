"""A name that is bound to one of two shared tiles, one of which is then changed."""

import tegula as tg


@tg.kernel
def swap(a: tg.array1d[float], n: int):
    x = tg.tile_load(a, shape=8, storage="shared")
    y = tg.tile_load(a, shape=8, offset=8, storage="shared")
    if n > 0:
        t = x
    else:
        t = y
    t[0] = 1.0
    tg.tile_store(a, x)


tg.launch_tiled(swap, dim=1, inputs=[tg.zeros(16), 1], block_dim=8)
