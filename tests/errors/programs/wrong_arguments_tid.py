"""More indices unpacked than the launch has."""

import tegula as tg


@tg.kernel
def mark(a: tg.array2d[float]):
    i, j = tg.tid()
    a[i, j] = 1.0


tg.launch(mark, dim=4, inputs=[tg.zeros((4, 4))])
