"""Two roles that wait for each other."""

import tegula as tg


@tg.kernel
def sums(x: tg.array2d[float]):
    there = tg.tile_pipe(shape=(1, 8), dtype=float, stages=2)
    back = tg.tile_pipe(shape=(1, 8), dtype=float, stages=2)
    with tg.ws(0):
        tg.tile_pipe_push(there, tg.tile_pipe_pop(back))
    with tg.ws(1):
        tg.tile_pipe_push(back, tg.tile_pipe_pop(there))


tg.launch_tiled(sums, dim=1, inputs=[tg.zeros((8, 8))])
