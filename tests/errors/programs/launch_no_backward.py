"""A gradient asked for of a kernel that was declared to have none."""

import tegula as tg


@tg.kernel(enable_backward=False)
def double(a: tg.array1d[float], b: tg.array1d[float]):
    i = tg.tid()
    b[i] = 2.0 * a[i]


a, b = tg.ones(4, requires_grad=True), tg.zeros(4, requires_grad=True)
tg.launch(double, dim=4, inputs=[a], outputs=[b], adjoint=True)
