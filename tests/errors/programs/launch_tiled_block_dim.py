"""launch_tiled without block_dim."""

import tegula as tg


@tg.kernel
def clear(a: tg.array1d[float]):
    tg.tile_store(a, tg.tile_zeros(shape=4))


tg.launch_tiled(clear, dim=1, inputs=[tg.zeros(4)])
