"""An attribute that arrays do not have."""

import tegula as tg


@tg.kernel
def count(a: tg.array1d[float]):
    a[0] = float(a.lenght)


tg.launch(count, dim=1, inputs=[tg.zeros(4)])
