"""Thousands of functions, each of which calls the next."""

import tegula as tg


def around(inner):
    @tg.func
    def outer(x: float):
        return inner(x)

    return outer


@tg.func
def chain(x: float):
    return x


for _ in range(3000):
    chain = around(chain)


@tg.kernel
def call(a: tg.array1d[float]):
    i = tg.tid()
    a[i] = chain(a[i])


tg.launch(call, dim=4, inputs=[tg.zeros(4)])
