"""A number that its type cannot hold."""

import tegula as tg


@tg.kernel
def fill(a: tg.array1d[tg.int8]):
    i = tg.tid()
    a[i] = tg.int8(300)


tg.launch(fill, dim=4, inputs=[tg.zeros(4, dtype=tg.int8)])
