"""A string for a parameter without annotation."""

import tegula as tg


@tg.kernel
def scale(a: tg.array1d[float], factor):
    i = tg.tid()
    a[i] = a[i] * factor


tg.launch(scale, dim=4, inputs=[tg.zeros(4), "2.0"])
