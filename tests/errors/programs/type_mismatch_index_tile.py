"""A tile as an index of an array."""

import tegula as tg


@tg.kernel
def wrong(a: tg.array1d[float]):
    t = tg.tile_arange(4, dtype=int)
    x = a[t]


tg.launch_tiled(wrong, dim=1, inputs=[tg.zeros(4)], block_dim=32)
