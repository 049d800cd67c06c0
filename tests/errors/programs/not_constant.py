"""A tile whose shape is known only at run time."""

import tegula as tg


@tg.kernel
def clear(a: tg.array1d[float], n: int):
    t = tg.tile_zeros(shape=n)
    tg.tile_store(a, t)


tg.launch_tiled(clear, dim=1, inputs=[tg.zeros(8), 4], block_dim=4)
