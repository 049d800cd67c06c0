"""A name that is bound to different arrays."""

import tegula as tg


@tg.kernel
def pick(a: tg.array1d[float], b: tg.array1d[float], n: int):
    if n > 0:
        x = a
    else:
        x = b
    x[0] = 1.0


tg.launch(pick, dim=1, inputs=[tg.zeros(4), tg.zeros(4), 1])
