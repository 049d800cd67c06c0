"""A vector as a condition."""

import tegula as tg


@tg.kernel
def guarded(a: tg.array1d[float], v: tg.vec3):
    if v:
        a[0] = 1.0


tg.launch(guarded, dim=1, inputs=[tg.zeros(4), [1.0, 2.0, 3.0]])
