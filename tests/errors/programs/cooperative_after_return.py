"""Some threads return before a tile function."""

import tegula as tg


@tg.kernel
def sums(a: tg.array1d[float], out: tg.array1d[float], n: int):
    i = tg.tid()
    if i >= n:
        return
    t = tg.tile(a[i])
    tg.tile_store(out, tg.tile_sum(t))


tg.launch(sums, dim=64, inputs=[tg.zeros(64), tg.zeros(1), 40], block_dim=32)
