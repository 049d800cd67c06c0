"""A name that only one branch binds."""

import tegula as tg


@tg.kernel
def clip(a: tg.array1d[float]):
    i = tg.tid()
    if a[i] > 1.0:
        x = 1.0
    a[i] = x


tg.launch(clip, dim=4, inputs=[tg.zeros(4)])
