"""A tile function takes an axis that the tile does not have, and another takes more keys than there are."""

import numpy as np

import tegula as tg


@tg.kernel
def largest(a: tg.array2d[float], out: tg.array2d[float]):
    t = tg.tile_load(a, (4, 3))
    order = tg.tile_argsort(t, axis=2)
    values, indices = tg.tile_topk(t, 5)
    tg.tile_store(out, values)


tg.launch_tiled(largest, 1, [np.zeros((4, 3), np.float32)], [np.zeros((4, 5), np.float32)], block_dim=32)
