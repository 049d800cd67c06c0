"""An else after a loop."""

import tegula as tg


@tg.kernel
def find(a: tg.array1d[float], where: tg.array1d[int]):
    for k in range(a.shape[0]):
        if a[k] > 0.0:
            where[0] = k
            break
    else:
        where[0] = -1


tg.launch(find, dim=1, inputs=[tg.zeros(4), tg.zeros(1, dtype=int)], block_dim=1)
