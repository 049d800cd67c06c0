"""A list for an array parameter."""

import tegula as tg


@tg.kernel
def scale(a: tg.array1d[float], factor: float):
    i = tg.tid()
    a[i] = a[i] * factor


tg.launch(scale, dim=4, inputs=[[1.0, 2.0, 3.0, 4.0], 2.0])
