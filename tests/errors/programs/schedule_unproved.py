"""Two roles whose loops are not known to have the same number of rounds."""

import tegula as tg


@tg.kernel
def first_thousand(x: tg.array2d[float], out: tg.array2d[float], n: int):
    pipe = tg.tile_pipe(shape=(1, 8), dtype=float, stages=2)
    with tg.ws(0):
        for k in range(n):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for k in range(tg.min(n, 1000)):
            tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(k, 0))


first_thousand.check(target="sm_90a").require()
