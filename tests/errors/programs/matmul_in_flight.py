"""An accumulator of a matmul in flight that is used before the wait."""

import tegula as tg


@tg.kernel
def sums(x: tg.array2d[float]):
    with tg.ws(0):
        a = tg.tile_load(x, shape=(8, 8), storage="shared")
        total = tg.tile_zeros(shape=(8, 8))
        tg.tile_matmul(a, a, total, wait=False)
        tg.tile_store(x, total)


tg.launch_tiled(sums, dim=1, inputs=[tg.zeros((8, 8))])
