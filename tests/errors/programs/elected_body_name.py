"""A phase that one thread changes for all."""

import tegula as tg


@tg.kernel
def waits(x: tg.array2d[float], n: int):
    full = tg.mbarrier(1)
    with tg.ws(0):
        phase = 0
        for k in range(n):
            if tg.elect():
                tg.mbarrier_wait(full, 0, phase)
                phase = phase ^ 1


tg.launch_tiled(waits, dim=1, inputs=[tg.zeros((8, 8)), 1])
