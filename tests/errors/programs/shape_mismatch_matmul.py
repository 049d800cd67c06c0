"""A matmul of tiles whose shapes do not fit."""

import tegula as tg


@tg.kernel
def matmul(a: tg.array2d[float]):
    x = tg.tile_load(a, shape=(8, 4))
    y = tg.tile_load(a, shape=(8, 4))
    tg.tile_store(a, tg.tile_matmul(x, y))


tg.launch_tiled(matmul, dim=1, inputs=[tg.zeros((8, 8))], block_dim=4)
