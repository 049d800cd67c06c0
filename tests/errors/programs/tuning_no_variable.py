"""Candidates with values for a variable that the kernel does not see."""

import tegula as tg

TILE = 64


@tg.autotune(TILES=[32, 64])
@tg.kernel
def clear(a: tg.array1d[float]):
    i = tg.tid()
    tg.tile_store(a, tg.tile_zeros(shape=TILE), offset=i * TILE)
