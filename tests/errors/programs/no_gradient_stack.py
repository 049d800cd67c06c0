"""A gradient through a stack."""

import tegula as tg


@tg.kernel
def backwards(a: tg.array1d[float], b: tg.array1d[float]):
    i = tg.tid()
    s = tg.tile_stack(32, float)
    tg.tile_stack_push(s, a[i])
    x, slot = tg.tile_stack_pop(s)
    b[i] = x


a, b = tg.ones(32, requires_grad=True), tg.zeros(32, requires_grad=True)
tg.launch(backwards, dim=32, inputs=[a], outputs=[b], block_dim=32, adjoint=True)
