"""A failed assert."""

import tegula as tg


@tg.kernel
def roots(a: tg.array1d[float]):
    i = tg.tid()
    assert a[i] >= 0.0, "only numbers that are not negative have a root"
    a[i] = tg.sqrt(a[i])


tg.launch(roots, dim=4, inputs=[tg.array([1.0, 4.0, -9.0, 16.0], dtype=float)])
