"""A dimension is given to tid."""

import tegula as tg


@tg.kernel
def fill(a: tg.array1d[float]):
    a[tg.tid(0)] = 1.0


tg.launch(fill, dim=4, inputs=[tg.zeros(4)])
