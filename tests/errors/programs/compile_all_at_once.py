"""All errors of a kernel are reported at once."""

import tegula as tg


@tg.kernel
def several(a: tg.array1d[float], n: int):
    i = tg.tid()
    x = a[i] * i
    if n > 0:
        y = missing
    else:
        y = x
    t = tg.tile_zero(4)
    a[i] = y


tg.launch(several, dim=4, inputs=[tg.zeros(4), 1])
