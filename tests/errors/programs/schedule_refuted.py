"""A role that pops at least one tile of a pipe that may receive no tile."""

import tegula as tg


@tg.kernel
def sums(x: tg.array2d[float], out: tg.array2d[float], n: int):
    pipe = tg.tile_pipe(shape=(1, 8), dtype=float, stages=2)
    with tg.ws(0):
        for k in range(n):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        total = tg.copy(tg.tile_pipe_pop(pipe))
        for k in range(1, n):
            total += tg.tile_pipe_pop(pipe)
        tg.tile_store(out, total, offset=(0, 0))


sums.check(target="sm_90a").require()
