"""A mistake in a function that is defined inside the kernel."""

import tegula as tg


@tg.kernel
def scale(a: tg.array1d[float]):
    def twice(x: float):
        return x * two

    i = tg.tid()
    a[i] = twice(a[i])


tg.launch(scale, dim=4, inputs=[tg.zeros(4)])
