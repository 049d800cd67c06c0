"""A matrix that no program of a cooperative function accepts: the help lists the conditions of the programs."""

import tegula as tg


@tg.kernel
def factors(a: tg.array2d[float], r: tg.array2d[float]):
    q, upper = tg.tile_qr(tg.tile_load(a, (3, 4)))
    tg.tile_store(r, upper)


tg.launch_tiled(factors, 1, inputs=[tg.zeros((3, 4))], outputs=[tg.zeros((4, 4))], block_dim=32)
