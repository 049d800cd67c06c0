"""float32 times int32, in the order that was written."""

import tegula as tg


@tg.kernel
def ramp(a: tg.array1d[float], step: float):
    i = tg.tid()
    a[i] = step * i


tg.launch(ramp, dim=4, inputs=[tg.zeros(4), 0.5])
