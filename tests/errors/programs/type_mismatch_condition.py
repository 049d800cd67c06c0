"""An array as a condition."""

import tegula as tg


@tg.kernel
def guarded(a: tg.array1d[float]):
    if a:
        a[0] = 1.0


tg.launch(guarded, dim=1, inputs=[tg.zeros(4)])
