"""A write to a view without a gradient of an array with a gradient."""

import tegula as tg

a = tg.ones(4, requires_grad=True)
with tg.Tape() as tape:
    a.view(tg.int32).fill_(0)
tape.backward(grads={a: tg.ones(4)})
