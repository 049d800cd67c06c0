"""A keyword that a function of the language does not have."""

import tegula as tg


@tg.kernel
def clear(a: tg.array1d[float]):
    t = tg.tile_zeros(size=4)
    tg.tile_store(a, t)


tg.launch_tiled(clear, dim=1, inputs=[tg.zeros(8)], block_dim=4)
