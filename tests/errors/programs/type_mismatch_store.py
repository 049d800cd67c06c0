"""A value of the wrong type stored to an array."""

import tegula as tg


@tg.kernel
def indices(a: tg.array1d[int]):
    i = tg.tid()
    a[i] = float(i) * 0.5


tg.launch(indices, dim=4, inputs=[tg.zeros(4, dtype=int)])
