"""Two roles whose trip counts are read from an array that the kernel changes."""

import tegula as tg


@tg.kernel
def changed(x: tg.array2d[float], out: tg.array2d[float], counts: tg.array1d[int]):
    pipe = tg.tile_pipe(shape=(1, 8), dtype=float, stages=2)
    with tg.ws(0):
        for k in range(counts[0]):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for k in range(counts[0]):
            tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(k, 0))
        counts[0] = 0


changed.check(target="sm_90a").require()
