"""A comparison of an integer with a number with a fraction."""

import tegula as tg


@tg.kernel
def mark(a: tg.array1d[float], limit: float):
    i = tg.tid()
    if i < limit:
        a[i] = 1.0


tg.launch(mark, dim=4, inputs=[tg.zeros(4), 2.5])
