"""An annotation that is not a type."""

import tegula as tg


@tg.kernel
def clear(a: tg.array1d[float], name: dict):
    a[tg.tid()] = 0.0


tg.launch(clear, dim=4, inputs=[tg.zeros(4), "x"])
