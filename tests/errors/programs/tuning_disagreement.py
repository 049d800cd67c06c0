"""Two candidates with different results."""

import tegula as tg

SKIPPED = 0


@tg.autotune(SKIPPED=[0, 1])
@tg.kernel
def double(a: tg.array1d[float], b: tg.array1d[float]):
    i = tg.tid()
    if i >= SKIPPED:
        b[i] = 2.0 * a[i]


tg.launch(double, dim=4, inputs=[tg.ones(4)], outputs=[tg.zeros(4)])
