"""An adjoint launch in which no array has a gradient."""

import tegula as tg


@tg.kernel
def clear(a: tg.array1d[float]):
    a[tg.tid()] = 0.0


tg.launch(clear, dim=4, inputs=[tg.zeros(4)], adjoint=True)
