"""A function that combines two elements of a tile, and uses an argument of the kernel."""

import tegula as tg


@tg.kernel
def scaled_sum(a: tg.array1d[float], factor: float, out: tg.array1d[float]):
    tile = tg.tile_load(a, shape=64)
    tg.tile_store(out, tg.tile_reduce(lambda x, y: x + factor * y, tile))


tg.launch_tiled(scaled_sum, dim=1, inputs=[tg.zeros(64), 2.0, tg.zeros(1)], block_dim=64)
