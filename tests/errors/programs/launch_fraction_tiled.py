"""A number of blocks with a fraction."""

import tegula as tg


@tg.kernel
def clear(a: tg.array1d[float]):
    tg.tile_store(a, tg.tile_zeros(shape=4), offset=tg.tid() * 4)


tg.launch_tiled(clear, dim=[10 / 4], inputs=[tg.zeros(10)], block_dim=4)
