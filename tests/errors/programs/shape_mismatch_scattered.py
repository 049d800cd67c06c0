"""More rows assigned than there are indices."""

import tegula as tg


@tg.kernel
def wrong(a: tg.array2d[float]):
    t = tg.tile_load(a, shape=(4, 4))
    t[tg.tile_arange(3, dtype=int)] = t


tg.launch_tiled(wrong, dim=1, inputs=[tg.zeros((4, 4))], block_dim=32)
