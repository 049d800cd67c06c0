"""More launch dimensions than the maximum of four."""

import tegula as tg


@tg.kernel
def clear(a: tg.array1d[float]):
    a[tg.tid()] = 0.0


tg.launch(clear, dim=(1, 1, 1, 1, 4), inputs=[tg.zeros(4)])
