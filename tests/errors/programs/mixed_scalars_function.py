"""The minimum of numbers of two types."""

import tegula as tg


@tg.kernel
def cap(a: tg.array1d[float]):
    i = tg.tid()
    a[i] = tg.min(a[i], i)


tg.launch(cap, dim=4, inputs=[tg.zeros(4)])
