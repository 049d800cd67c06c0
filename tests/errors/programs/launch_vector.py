"""A vector of the wrong length."""

import tegula as tg


@tg.kernel
def move(a: tg.array1d[tg.vec3], by: tg.vec3):
    i = tg.tid()
    a[i] = a[i] + by


tg.launch(move, dim=4, inputs=[tg.zeros(4, dtype=tg.vec3), (1.0, 2.0)])
