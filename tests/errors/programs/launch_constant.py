"""A list for a parameter that takes a constant."""

import tegula as tg


@tg.kernel
def shaped(a: tg.array2d[float], shape: tg.constexpr):
    tg.tile_store(a, tg.tile_zeros(shape=shape))


tg.launch_tiled(shaped, dim=1, inputs=[tg.zeros((4, 4)), [4, 4]], block_dim=32)
