"""An index outside an array, inside a function, in debug mode."""

import tegula as tg


@tg.func
def read(a: tg.array1d[float], i: int):
    return a[i]


@tg.kernel
def shift(a: tg.array1d[float]):
    j = tg.tid()
    a[j] = read(a, j + 1)


tg.config.mode = "debug"
tg.launch(shift, dim=8, inputs=[tg.zeros(8)], block_dim=8)
