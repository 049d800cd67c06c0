"""A function that calls itself."""

import tegula as tg


@tg.func
def factorial(n: int):
    if n < 2:
        return 1
    return n * factorial(n - 1)


@tg.kernel
def fill(a: tg.array1d[int]):
    i = tg.tid()
    a[i] = factorial(i)


tg.launch(fill, dim=4, inputs=[tg.zeros(4, dtype=int)])
