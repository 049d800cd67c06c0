"""A Python object that kernels cannot use."""

import tegula as tg

settings = {"factor": 2.0}


@tg.kernel
def scale(a: tg.array1d[float]):
    i = tg.tid()
    a[i] = a[i] * settings["factor"]


tg.launch(scale, dim=4, inputs=[tg.zeros(4)])
