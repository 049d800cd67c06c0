"""A tile of one type stored to an array of another."""

import tegula as tg


@tg.kernel
def copy(a: tg.array1d[float], b: tg.array1d[tg.float16]):
    tg.tile_store(b, tg.tile_load(a, shape=4))


tg.launch_tiled(copy, dim=1, inputs=[tg.zeros(4), tg.zeros(4, dtype=tg.float16)], block_dim=4)
