"""A number with a fraction for an integer parameter."""

import tegula as tg


@tg.kernel
def shift(a: tg.array1d[int], by: int):
    i = tg.tid()
    a[i] = a[i] + by


tg.launch(shift, dim=4, inputs=[tg.zeros(4, dtype=int), 0.5])
