"""A number that the parameter's type cannot hold."""

import tegula as tg


@tg.kernel
def fill(a: tg.array1d[tg.int8], value: tg.int8):
    i = tg.tid()
    a[i] = value


tg.launch(fill, dim=4, inputs=[tg.zeros(4, dtype=tg.int8), 300])
