"""A tile stored as an element."""

import tegula as tg


@tg.kernel
def wrong(a: tg.array1d[float]):
    t = tg.tile_load(a, shape=4)
    a[0] = t * 2.0


tg.launch_tiled(wrong, dim=1, inputs=[tg.zeros(4)], block_dim=32)
