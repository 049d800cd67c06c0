"""A variable that is float on one path and int on another."""

import tegula as tg


@tg.kernel
def choose(a: tg.array1d[float], n: int):
    if n > 0:
        x = a[0]
    else:
        x = 0
    a[1] = float(x)


tg.launch(choose, dim=1, inputs=[tg.zeros(4), 1])
