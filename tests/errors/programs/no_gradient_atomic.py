"""A gradient through the value that an atomic operation returns."""

import tegula as tg


@tg.kernel
def exchange(a: tg.array1d[float], b: tg.array1d[float]):
    i = tg.tid()
    b[i] = 2.0 * tg.atomic_add(a, 0, 1.0)


a, b = tg.ones(4, requires_grad=True), tg.zeros(4, requires_grad=True)
tg.launch(exchange, dim=4, inputs=[a], outputs=[b], adjoint=True)
