"""A pipe that is used before the roles, and a pipe that is created in a role."""

import tegula as tg


@tg.kernel
def sums(x: tg.array2d[float]):
    pipe = tg.tile_pipe(shape=(1, 8), dtype=float, stages=2)

    tg.tile_pipe_load(pipe, x)
    with tg.ws(0):
        other = tg.tile_pipe(shape=(1, 8), dtype=float, stages=2)
        tg.tile_store(x, tg.tile_pipe_pop(pipe))


tg.launch_tiled(sums, dim=1, inputs=[tg.zeros((8, 8))])
