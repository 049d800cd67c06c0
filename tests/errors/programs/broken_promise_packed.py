"""aligned=True of an array that is not packed, in debug mode."""

import tegula as tg


@tg.kernel
def double(a: tg.array2d[float]):
    t = tg.tile_load(a, shape=(4, 4), aligned=True)
    tg.tile_store(a, t * 2.0)


tg.config.mode = "debug"
tg.launch_tiled(double, dim=1, inputs=[tg.zeros((4, 8))[:, :4]], block_dim=8)
