"""A loop whose step turns out to be 0."""

import tegula as tg


@tg.kernel
def count(a: tg.array1d[int], step: int):
    i = tg.tid()
    for k in range(0, 8, step):
        a[i] += k


tg.launch(count, dim=1, inputs=[tg.zeros(1, dtype=int), 0])
