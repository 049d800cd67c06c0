"""No overload fits."""

import tegula as tg


@tg.func
def half(x: float):
    return x * 0.5


@tg.func
def half(x: int):  # noqa: F811
    return x // 2


@tg.kernel
def apply(a: tg.array1d[float]):
    a[0] = half(a)


tg.launch(apply, dim=1, inputs=[tg.zeros(4)])
