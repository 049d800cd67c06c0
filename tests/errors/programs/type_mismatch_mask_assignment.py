"""A part of another dtype assigned where a mask is true."""

import tegula as tg


@tg.kernel
def wrong(a: tg.array1d[float]):
    t = tg.tile_load(a, shape=4)
    t[t > 0.0] = tg.tile_arange(4, dtype=int)


tg.launch_tiled(wrong, dim=1, inputs=[tg.zeros(4)], block_dim=32)
