"""aligned=True at an offset that is not a multiple of 16 bytes."""

import tegula as tg


@tg.kernel
def double(a: tg.array1d[float]):
    t = tg.tile_load(a, shape=8, offset=3, aligned=True)
    tg.tile_store(a, t * 2.0)


tg.launch_tiled(double, dim=1, inputs=[tg.zeros(16)], block_dim=8)
