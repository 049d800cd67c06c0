"""Conditions on floats are combined with an operator on bits."""

import tegula as tg


@tg.kernel
def mask(a: tg.array1d[float]):
    i = tg.tid()
    a[i] = a[i] & 2.0


tg.launch(mask, dim=4, inputs=[tg.zeros(4)])
