"""A kernel that returns a value."""

import tegula as tg


@tg.kernel
def first(a: tg.array1d[float]):
    return a[0]


tg.launch(first, dim=1, inputs=[tg.zeros(4)])
