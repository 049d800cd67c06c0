"""A reshape to another number of elements."""

import tegula as tg


@tg.kernel
def square(a: tg.array2d[float]):
    t = tg.tile_arange(6)
    tg.tile_store(a, tg.tile_reshape(t, (2, 2)))


tg.launch_tiled(square, dim=1, inputs=[tg.zeros((2, 2))], block_dim=4)
