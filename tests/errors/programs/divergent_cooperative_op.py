"""A tile function that only some threads of the block would reach."""

import tegula as tg


@tg.kernel
def positive_sum(a: tg.array1d[float], out: tg.array1d[float]):
    i = tg.tid()
    if a[i] > 0.0:
        s = tg.tile_sum(tg.tile(a[i]))
        tg.tile_store(out, s)


tg.launch(positive_sum, dim=64, inputs=[tg.zeros(64), tg.zeros(1)], block_dim=32)
