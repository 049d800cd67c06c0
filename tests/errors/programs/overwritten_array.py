"""A kernel that overwrites values that its gradient needs."""

import tegula as tg


@tg.kernel
def square(a: tg.array1d[float]):
    i = tg.tid()
    a[i] = a[i] * a[i]


a = tg.ones(4, requires_grad=True)
tg.launch(square, dim=4, inputs=[a], adjoint=True)
