"""The matrices of a call have a batch, and the right sides have none."""

import numpy as np

import tegula as tg


@tg.kernel
def solutions(a: tg.array3d[float], y: tg.array1d[float], out: tg.array2d[float]):
    x = tg.tile_solve(tg.tile_load(a, (2, 3, 3)), tg.tile_load(y, 3))
    tg.tile_store(out, x)


arrays = [np.zeros((2, 3, 3), np.float32), np.zeros(3, np.float32)]
tg.launch_tiled(solutions, 1, arrays, [np.zeros((2, 3), np.float32)], block_dim=32)
