"""An integer literal stored to an array of floats."""

import tegula as tg


@tg.kernel
def clear(a: tg.array1d[float]):
    i = tg.tid()
    a[i] = 0


tg.launch(clear, dim=4, inputs=[tg.zeros(4)])
