"""A tile that is used after its stage was released."""

import tegula as tg


@tg.kernel
def sums(x: tg.array2d[float]):
    pipe = tg.tile_pipe(shape=(1, 8), dtype=float, stages=2)

    with tg.ws(0):
        tg.tile_pipe_load(pipe, x)
    with tg.ws(1):
        tile = tg.tile_pipe_pop(pipe)
        tg.tile_pipe_release(pipe)
        tg.tile_store(x, tile)


tg.launch_tiled(sums, dim=1, inputs=[tg.zeros((8, 8))])
