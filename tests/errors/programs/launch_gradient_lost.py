"""An intermediate array without a gradient, so that the gradient of the first array would be lost."""

import tegula as tg


@tg.kernel
def square(a: tg.array1d[float], b: tg.array1d[float]):
    i = tg.tid()
    b[i] = a[i] * a[i]


@tg.kernel
def add_up(b: tg.array1d[float], loss: tg.array1d[float]):
    tg.atomic_add(loss, 0, b[tg.tid()])


a, b, loss = tg.ones(4, requires_grad=True), tg.zeros(4), tg.zeros(1, requires_grad=True)
with tg.Tape() as tape:
    tg.launch(square, dim=4, inputs=[a], outputs=[b])
    tg.launch(add_up, dim=4, inputs=[b], outputs=[loss])
tape.backward(loss)
