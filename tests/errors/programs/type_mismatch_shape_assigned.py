"""The shape of an array is assigned to."""

import tegula as tg


@tg.kernel
def grow(a: tg.array1d[float]):
    a.shape = 8


tg.launch(grow, dim=4, inputs=[tg.zeros(4)])
