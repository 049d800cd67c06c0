"""Rows of an array by a tile of indices, without the columns."""

import tegula as tg


@tg.kernel
def wrong(a: tg.array2d[float]):
    t = tg.tile_arange(4, dtype=int)
    x = a[t]


tg.launch_tiled(wrong, dim=1, inputs=[tg.zeros((4, 4))], block_dim=32)
