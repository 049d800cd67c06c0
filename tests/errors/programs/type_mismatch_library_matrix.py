"""A matrix that a function of the library does not take: the error is at the call, not within the library."""

import tegula as tg

Matrix = tg.types.matrix((6, 6), float)


@tg.func
def volume(m: Matrix):
    return tg.determinant(m)


@tg.kernel
def decompose(a: tg.array[Matrix], out: tg.array[float]):
    out[0] = volume(a[0])
    u, s, v = tg.svd3(a[1])


tg.launch(decompose, dim=1, inputs=[tg.zeros(2, dtype=Matrix)], outputs=[tg.zeros(1)])
