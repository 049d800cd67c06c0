"""A stage that is released while a matmul in flight reads it."""

import tegula as tg


@tg.kernel
def sums(x: tg.array2d[float]):
    pipe = tg.tile_pipe(shape=(8, 8), dtype=float, stages=2)
    with tg.ws(0):
        tg.tile_pipe_load(pipe, x)
    with tg.ws(1):
        total = tg.tile_zeros(shape=(8, 8))
        tile = tg.tile_pipe_pop(pipe)
        tg.tile_matmul(tile, tile, total, wait=False)
        tg.tile_pipe_release(pipe)
        tg.tile_matmul_wait()
        tg.tile_store(x, total)


tg.launch_tiled(sums, dim=1, inputs=[tg.zeros((8, 8))])
