"""A thread index times a float."""

import tegula as tg


@tg.kernel
def ramp(a: tg.array1d[float]):
    i = tg.tid()
    x = i * 2.0
    a[i] = x


tg.launch(ramp, dim=4, inputs=[tg.zeros(4)])
