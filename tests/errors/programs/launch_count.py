"""Too few arguments."""

import tegula as tg


@tg.kernel
def scale(a: tg.array1d[float], factor: float):
    i = tg.tid()
    a[i] = a[i] * factor


tg.launch(scale, dim=4, inputs=[tg.zeros(4)])
