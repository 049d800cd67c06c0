"""A Python function that is not a function of the language."""

import tegula as tg


def twice(x):
    return x * 2.0


@tg.kernel
def scale(a: tg.array1d[float]):
    i = tg.tid()
    a[i] = twice(a[i])


tg.launch(scale, dim=4, inputs=[tg.zeros(4)])
