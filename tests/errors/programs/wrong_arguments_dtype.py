"""A dtype as the argument of a function of numbers."""

import tegula as tg


@tg.kernel
def waves(a: tg.array1d[float]):
    a[tg.tid()] = tg.sin(tg.float64)


tg.launch(waves, dim=4, inputs=[tg.zeros(4)])
