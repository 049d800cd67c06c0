"""An array whose old elements the gradient needs is overwritten before the backward run."""

import tegula as tg


@tg.kernel
def square(a: tg.array1d[float], loss: tg.array1d[float]):
    i = tg.tid()
    tg.atomic_add(loss, 0, a[i] * a[i])


a, loss = tg.ones(4, requires_grad=True), tg.zeros(1, requires_grad=True)
with tg.Tape() as tape:
    tg.launch(square, dim=4, inputs=[a], outputs=[loss])
a.fill_(3.0)
tape.backward(loss)
