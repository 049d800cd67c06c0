"""A function of NumPy that the language has too."""

import numpy as np

import tegula as tg


@tg.kernel
def grow(a: tg.array1d[float]):
    i = tg.tid()
    a[i] = np.exp(a[i])


tg.launch(grow, dim=4, inputs=[tg.zeros(4)])
