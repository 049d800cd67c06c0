"""A tile that is held across a loop which pops other tiles."""

import tegula as tg


@tg.kernel
def sums(x: tg.array2d[float]):
    pipe = tg.tile_pipe(shape=(1, 8), dtype=float, stages=2)

    with tg.ws(0):
        for k in range(4):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        first = tg.tile_pipe_pop(pipe)
        for k in range(3):
            tg.tile_store(x, tg.tile_pipe_pop(pipe) + first, offset=(k, 0))


tg.launch_tiled(sums, dim=1, inputs=[tg.zeros((8, 8))])
