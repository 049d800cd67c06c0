"""A tile bound only inside a loop that may not run."""

import tegula as tg


@tg.kernel
def last_row(a: tg.array2d[float], out: tg.array1d[float]):
    for k in range(a.shape[0]):
        row = tg.tile_load(a[k], shape=4)
    tg.tile_store(out, row)


tg.launch_tiled(last_row, dim=1, inputs=[tg.zeros((2, 4)), tg.zeros(4)], block_dim=4)
