"""An argument that is known at run time only, for a function that takes a constant."""

import tegula as tg


@tg.func
def zeros(n: tg.constexpr[int]):
    return tg.tile_zeros(shape=n)


@tg.kernel
def cleared(a: tg.array1d[float], n: int):
    tg.tile_store(a, zeros(n))


tg.launch_tiled(cleared, dim=1, inputs=[tg.zeros(4), 4], block_dim=32)
