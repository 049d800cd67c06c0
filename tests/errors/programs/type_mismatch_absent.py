"""An element of an array parameter for which None is passed."""

import tegula as tg


@tg.kernel
def shifted(a: tg.array1d[float], b: tg.array1d[float]):
    i = tg.tid()
    a[i] += b[i]


tg.launch(shifted, dim=4, inputs=[tg.zeros(4), None])
