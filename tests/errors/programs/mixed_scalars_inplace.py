"""A float added to a variable that is an integer."""

import tegula as tg


@tg.kernel
def total(a: tg.array1d[float]):
    s = 0
    for i in range(a.shape[0]):
        s += a[i]
    a[0] = float(s)


tg.launch(total, dim=1, inputs=[tg.zeros(4)])
