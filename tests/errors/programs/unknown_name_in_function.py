"""The chain of calls that leads to the mistake."""

import tegula as tg


@tg.func
def inner(x: float):
    return x + ofset


@tg.func
def outer(x: float):
    return inner(x) * 2.0


@tg.kernel
def apply(a: tg.array1d[float]):
    i = tg.tid()
    a[i] = outer(a[i])


tg.launch(apply, dim=4, inputs=[tg.zeros(4)])
