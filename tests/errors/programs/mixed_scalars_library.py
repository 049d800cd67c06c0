"""An integer argument of a function of the standard library."""

import tegula as tg


@tg.kernel
def waves(a: tg.array1d[float]):
    i = tg.tid()
    a[i] = tg.sin(i)


tg.launch(waves, dim=4, inputs=[tg.zeros(4)])
