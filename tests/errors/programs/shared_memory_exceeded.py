"""Tiles that need more memory than a block has."""

import tegula as tg


@tg.kernel
def distances(a: tg.array2d[float], out: tg.array2d[float]):
    x = tg.tile_load(a, shape=(16384, 8192), storage="shared")
    y = tg.tile_load(a, shape=(16384, 8192), offset=(16384, 0), storage="shared")
    total = tg.tile_zeros(shape=(16384, 16384), storage="shared")
    x[0, 0] = 1.0
    y[0, 0] = 2.0
    tg.tile_matmul(x, tg.tile_transpose(y), total)
    tg.tile_store(out, total)


tg.launch_tiled(distances, dim=1, inputs=[tg.zeros((8, 8)), tg.zeros((8, 8))], block_dim=64)
