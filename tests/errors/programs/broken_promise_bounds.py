"""aligned=True of a tile that leaves the array, in debug mode."""

import tegula as tg


@tg.kernel
def double(a: tg.array1d[float]):
    t = tg.tile_load(a, shape=16, aligned=True)
    tg.tile_store(a, t * 2.0)


tg.config.mode = "debug"
tg.launch_tiled(double, dim=1, inputs=[tg.zeros(12)], block_dim=8)
