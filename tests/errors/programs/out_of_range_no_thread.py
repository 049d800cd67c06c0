"""A thread index that exceeds the block's number of threads."""

import tegula as tg


@tg.kernel
def spread(a: tg.array1d[float]):
    i, t = tg.tid()
    tg.tile_store(a, tg.tile_from_thread(shape=4, value=a[t], thread_idx=64))


tg.launch_tiled(spread, dim=1, inputs=[tg.zeros(64)], block_dim=64)
