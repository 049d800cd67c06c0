"""The tile function is inside a function that is called under a divergent condition."""

import tegula as tg


@tg.func
def block_sum(x: float):
    return tg.tile_sum(tg.tile(x))[0]


@tg.func
def mean(x: float):
    return block_sum(x) / float(tg.block_dim())


@tg.kernel
def centre(a: tg.array1d[float]):
    i = tg.tid()
    if i < 40:
        a[i] = a[i] - mean(a[i])


tg.launch(centre, dim=64, inputs=[tg.zeros(64)], block_dim=32)
