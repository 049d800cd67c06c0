"""An element of a float64 array that the kernel captures, and float32."""

import numpy as np

import tegula as tg

WEIGHTS = np.array([0.25, 0.5, 0.25])


@tg.kernel
def blur(x: tg.array1d[float]):
    t = tg.tile_load(x, shape=6)
    tg.tile_store(x, WEIGHTS[0] * t[:-2] + t[1:-1] * WEIGHTS[1] + t[2:] * WEIGHTS[2])


tg.launch_tiled(blur, dim=1, inputs=[tg.zeros(6)], block_dim=32)
