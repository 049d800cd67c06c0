"""A vector is stored where a scalar belongs."""

import tegula as tg


@tg.kernel
def store(v: tg.array1d[tg.vec3], a: tg.array1d[float]):
    i = tg.tid()
    a[i] = v[i]


tg.launch(store, dim=4, inputs=[tg.zeros(4, dtype=tg.vec3), tg.zeros(4)])
