"""An operand of a matmul in flight that is changed before the wait, in the next iteration."""

import tegula as tg


@tg.kernel
def sums(x: tg.array2d[float]):
    with tg.ws(0):
        a = tg.tile_load(x, shape=(8, 8), storage="shared")
        total = tg.tile_zeros(shape=(8, 8))
        for k in range(4):
            a[k, 0] = 1.0
            tg.tile_matmul(a, a, total, wait=False)
        tg.tile_matmul_wait()
        tg.tile_store(x, total)


tg.launch_tiled(sums, dim=1, inputs=[tg.zeros((8, 8))])
