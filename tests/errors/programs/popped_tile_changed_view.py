"""A change of a view of a popped tile."""

import tegula as tg


@tg.kernel
def sums(x: tg.array2d[float]):
    pipe = tg.tile_pipe(shape=(1, 8), dtype=float, stages=2)

    with tg.ws(0):
        tg.tile_pipe_load(pipe, x)
    with tg.ws(1):
        row = tg.tile_pipe_pop(pipe)[0]
        row += 1.0


tg.launch_tiled(sums, dim=1, inputs=[tg.zeros((8, 8))])
