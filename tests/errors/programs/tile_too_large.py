"""Two small tiles whose matmul has more elements than a tile can have."""

import tegula as tg


@tg.kernel
def outer(a: tg.array2d[float], total: tg.array1d[float]):
    column = tg.tile_load(a, shape=(20_000, 1))
    row = tg.tile_transpose(column)
    tg.tile_store(total, tg.tile_sum(column * row))


tg.launch_tiled(outer, dim=1, inputs=[tg.zeros((20_000, 1)), tg.zeros(1)], block_dim=4)
