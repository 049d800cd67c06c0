"""An integer times a number with a fraction."""

import tegula as tg


@tg.kernel
def ramp(a: tg.array1d[float]):
    i = tg.tid()
    a[i] = i * 2.0 + 1.0


tg.launch(ramp, dim=4, inputs=[tg.zeros(4)])
