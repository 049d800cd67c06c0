"""An adjoint launch of a kernel that is declared to have no gradient."""

import tegula as tg


@tg.kernel(enable_backward=False)
def double(a: tg.array1d[float], b: tg.array1d[float]):
    i = tg.tid()
    b[i] = 2.0 * a[i]


a, b = tg.ones(4, requires_grad=True), tg.zeros(4, requires_grad=True)
tg.launch(double, dim=4, inputs=[a], outputs=[b], adjoint=True)
