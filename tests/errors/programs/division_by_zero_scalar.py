"""An integer divided by zero, in debug mode."""

import tegula as tg


@tg.kernel
def parts(a: tg.array1d[int]):
    i = tg.tid()
    a[i] = 12 // a[i]


tg.config.mode = "debug"
tg.launch(parts, dim=4, inputs=[tg.array([3, 2, 0, 1], dtype=int)])
