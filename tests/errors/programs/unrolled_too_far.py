"""A loop over constants with as many iterations as an array has elements."""

import tegula as tg


@tg.kernel
def double(a: tg.array1d[float]):
    for k in tg.static(range(1_000_000)):
        a[k] *= 2.0


tg.launch_tiled(double, dim=1, inputs=[tg.zeros(1_000_000)], block_dim=1)
