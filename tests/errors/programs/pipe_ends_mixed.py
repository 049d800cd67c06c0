"""A pipe that is filled by both loads and pushes."""

import tegula as tg


@tg.kernel
def sums(x: tg.array2d[float]):
    pipe = tg.tile_pipe(shape=(1, 8), dtype=float, stages=2)

    with tg.ws(0):
        tg.tile_pipe_load(pipe, x)
        tg.tile_pipe_push(pipe, tg.tile_zeros(shape=(1, 8)))
    with tg.ws(1):
        tg.tile_store(x, tg.tile_pipe_pop(pipe) + tg.tile_pipe_pop(pipe))


tg.launch_tiled(sums, dim=1, inputs=[tg.zeros((8, 8))])
