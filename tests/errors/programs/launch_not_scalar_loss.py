"""A loss of more than one element."""

import tegula as tg

with tg.Tape() as tape:
    pass
tape.backward(tg.zeros(4, requires_grad=True))
