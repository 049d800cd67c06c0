"""A float added to an element of an array of integers."""

import tegula as tg


@tg.kernel
def count(a: tg.array1d[int], step: float):
    i = tg.tid()
    a[i] += step


tg.launch(count, dim=4, inputs=[tg.zeros(4, dtype=int), 0.5])
