"""A gradient through a conversion to an integer."""

import tegula as tg


@tg.kernel
def fraction(a: tg.array1d[float], b: tg.array1d[float]):
    i = tg.tid()
    b[i] = a[i] - float(int(a[i]))


a, b = tg.ones(4, requires_grad=True), tg.zeros(4, requires_grad=True)
tg.launch(fraction, dim=4, inputs=[a], outputs=[b], adjoint=True)
