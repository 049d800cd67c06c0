"""A function that the language does not have."""

import tegula as tg


@tg.kernel
def sums(a: tg.array1d[float]):
    t = tg.tile_lod(a, shape=4)


tg.launch_tiled(sums, dim=1, inputs=[tg.zeros(4)], block_dim=4)
