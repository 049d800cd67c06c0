"""An exception raised in a kernel."""

import tegula as tg


@tg.kernel
def checked(a: tg.array1d[float]):
    if a[0] < 0.0:
        raise ValueError("negative")


tg.launch(checked, dim=1, inputs=[tg.zeros(4)])
