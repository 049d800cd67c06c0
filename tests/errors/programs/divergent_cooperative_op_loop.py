"""A loop whose length differs between threads."""

import tegula as tg


@tg.kernel
def sums(n: tg.array1d[int], a: tg.array1d[float]):
    i = tg.tid()
    for k in range(n[i]):
        t = tg.tile_load(a, shape=8, offset=k)
        a[0] = tg.tile_sum(t)[0]


tg.launch(sums, dim=64, inputs=[tg.zeros(64, dtype=int), tg.zeros(64)], block_dim=32)
