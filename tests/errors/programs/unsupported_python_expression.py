"""A list comprehension."""

import tegula as tg


@tg.kernel
def squares(a: tg.array1d[float]):
    values = [k * k for k in range(4)]


tg.launch(squares, dim=1, inputs=[tg.zeros(4)])
