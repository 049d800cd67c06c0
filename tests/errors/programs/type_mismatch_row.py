"""A row of an array is assigned as a whole."""

import tegula as tg


@tg.kernel
def clear(a: tg.array2d[float]):
    i = tg.tid()
    a[i] = 0.0


tg.launch(clear, dim=4, inputs=[tg.zeros((4, 4))])
