"""A function mapped over a tile whose elements do not fit its parameter."""

import tegula as tg


@tg.func
def half(x: int):
    return x // 2


@tg.kernel
def halves(a: tg.array1d[float]):
    t = tg.tile_load(a, shape=4)
    tg.tile_store(a, tg.tile_map(half, t))


tg.launch_tiled(halves, dim=1, inputs=[tg.zeros(4)], block_dim=4)
