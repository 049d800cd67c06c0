"""An unknown function whose name resembles no function of the language."""

import tegula as tg


@tg.kernel
def spectrum(a: tg.array1d[tg.vec2]):
    t = tg.tile_load(a, shape=8)
    tg.tile_convolve(t)
    tg.tile_store(a, t)


tg.launch_tiled(spectrum, dim=1, inputs=[tg.zeros(8, dtype=tg.vec2)], block_dim=8)
