"""A gradient of an element that several threads write."""

import tegula as tg


@tg.kernel
def mixed(a: tg.array1d[float], b: tg.array1d[float]):
    j = tg.tid()
    t = tg.tile_zeros(shape=4)
    t[0] = a[j]
    tg.tile_store(b, t)


a, b = tg.ones(4, requires_grad=True), tg.zeros(4, requires_grad=True)
tg.launch(mixed, dim=4, inputs=[a], outputs=[b], block_dim=4, adjoint=True)
