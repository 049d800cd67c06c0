"""A variable that a loop turns from int to float."""

import tegula as tg


@tg.kernel
def total(a: tg.array1d[float]):
    s = 0
    for i in range(a.shape[0]):
        s = s + a[i]
    a[0] = s


tg.launch(total, dim=1, inputs=[tg.zeros(4)])
