"""A barrier that is created in a role."""

import tegula as tg


@tg.kernel
def waits(x: tg.array2d[float]):
    with tg.ws(0):
        full = tg.mbarrier(4)
        tg.mbarrier_arrive(full)


tg.launch_tiled(waits, dim=1, inputs=[tg.zeros((8, 8))])
