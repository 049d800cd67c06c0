"""Tiles that need more memory than a block has."""

import tegula as tg


@tg.kernel
def distances(a: tg.array2d[tg.float64], out: tg.array2d[tg.float64]):
    x = tg.tile_load(a, shape=(8192, 8192), storage="shared")
    y = tg.tile_load(a, shape=(8192, 8192), offset=(8192, 0), storage="shared")
    total = tg.tile_zeros(shape=(8192, 8192), dtype=tg.float64, storage="shared")
    x[0, 0] = tg.float64(1.0)
    y[0, 0] = tg.float64(2.0)
    tg.tile_matmul(x, tg.tile_transpose(y), total)
    tg.tile_store(out, total)


tg.launch_tiled(
    distances,
    dim=1,
    inputs=[tg.zeros((8, 8), dtype=tg.float64), tg.zeros((8, 8), dtype=tg.float64)],
    block_dim=64,
)
