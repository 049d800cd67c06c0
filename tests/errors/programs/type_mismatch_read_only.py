"""The repeated elements of a broadcast are written to."""

import tegula as tg


@tg.kernel
def write(a: tg.array2d[float]):
    row = tg.tile_load(a, shape=(1, 4))
    t = tg.tile_broadcast(row, (4, 4))
    t[0, 0] = 1.0
    tg.tile_store(a, t)


tg.launch_tiled(write, dim=1, inputs=[tg.zeros((4, 4))], block_dim=4)
