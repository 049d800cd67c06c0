"""An argument of the wrong type."""

import tegula as tg


@tg.func
def half(x: float):
    return x * 0.5


@tg.kernel
def apply(a: tg.array1d[float]):
    i = tg.tid()
    a[i] = half(i)


tg.launch(apply, dim=4, inputs=[tg.zeros(4)])
