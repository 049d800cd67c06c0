"""A role that assigns to a name from before the roles."""

import tegula as tg


@tg.kernel
def sums(x: tg.array2d[float]):
    at = 0
    with tg.ws(0):
        at = 1
        x[at, 0] = 1.0
    with tg.ws(1):
        x[at, 1] = 1.0


tg.launch_tiled(sums, dim=1, inputs=[tg.zeros((8, 8))])
