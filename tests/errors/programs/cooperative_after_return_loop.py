"""Some threads leave from a loop before a tile function."""

import tegula as tg


@tg.kernel
def search(a: tg.array1d[float], out: tg.array1d[int]):
    i = tg.tid()
    for k in range(4):
        if a[i] > float(k):
            return
    tg.tile_store(out, tg.tile_sum(tg.tile(i)))


tg.launch(search, dim=64, inputs=[tg.zeros(64), tg.zeros(1, dtype=int)], block_dim=32)
