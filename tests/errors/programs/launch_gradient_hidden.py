"""An array without a gradient on the memory of an array with a gradient."""

import tegula as tg


@tg.kernel
def add_up(b: tg.array1d[float], loss: tg.array1d[float]):
    tg.atomic_add(loss, 0, b[tg.tid()])


a, loss = tg.ones(4, requires_grad=True), tg.zeros(1, requires_grad=True)
again = tg.array(a.numpy(), copy=False)
with tg.Tape() as tape:
    a.fill_(2.0)
    tg.launch(add_up, dim=4, inputs=[again], outputs=[loss])
tape.backward(loss)
