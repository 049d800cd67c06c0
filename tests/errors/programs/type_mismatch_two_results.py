"""A function returns another type on each path."""

import tegula as tg


@tg.func
def sign(x: float):
    if x > 0.0:
        return 1
    return -1.0


@tg.kernel
def signs(a: tg.array1d[float]):
    i = tg.tid()
    a[i] = float(sign(a[i]))


tg.launch(signs, dim=4, inputs=[tg.zeros(4)])
