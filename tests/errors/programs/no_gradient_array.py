"""A gradient through an array without a gradient."""

import tegula as tg


@tg.kernel
def twice(a: tg.array1d[float], kept: tg.array1d[float], b: tg.array1d[float]):
    i = tg.tid()
    kept[i] = 2.0 * a[i]
    b[i] = kept[i] + a[i]


a, b = tg.ones(4, requires_grad=True), tg.zeros(4, requires_grad=True)
tg.launch(twice, dim=4, inputs=[a, tg.zeros(4)], outputs=[b], adjoint=True)
