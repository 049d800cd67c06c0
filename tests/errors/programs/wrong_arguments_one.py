"""Too many arguments."""

import tegula as tg


@tg.func
def half(x: float):
    return x * 0.5


@tg.kernel
def halves(a: tg.array1d[float]):
    i = tg.tid()
    a[i] = half(a[i], 2.0)


tg.launch(halves, dim=4, inputs=[tg.zeros(4)])
