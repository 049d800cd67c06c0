"""A tile outside an array, with bounds_check=False, in debug mode."""

import tegula as tg


@tg.kernel
def double(a: tg.array1d[float]):
    i, _ = tg.tid()
    t = tg.tile_load(a, shape=8, offset=i * 8, bounds_check=False)
    tg.tile_store(a, t * 2.0, offset=i * 8)


tg.config.mode = "debug"
tg.launch_tiled(double, dim=2, inputs=[tg.zeros(12)], block_dim=8)
