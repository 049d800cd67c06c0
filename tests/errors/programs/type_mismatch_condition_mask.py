"""A tile as a condition."""

import tegula as tg


@tg.kernel
def wrong(a: tg.array1d[float]):
    t = tg.tile_load(a, shape=4)
    while t:
        t -= 1.0


tg.launch_tiled(wrong, dim=1, inputs=[tg.zeros(4)], block_dim=32)
