"""An index outside an array, in debug mode."""

import tegula as tg


@tg.kernel
def shift(a: tg.array2d[float]):
    i, j = tg.tid()
    a[i, j] = a[i, j + 1]


tg.config.mode = "debug"
tg.launch(shift, dim=(2, 4), inputs=[tg.zeros((2, 4))], block_dim=4)
