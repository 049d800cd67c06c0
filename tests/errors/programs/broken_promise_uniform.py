"""tg.uniform of a value that differs between threads, in debug mode."""

import tegula as tg


@tg.kernel
def scaled(a: tg.array1d[float]):
    i = tg.tid()
    n = tg.uniform(i // 4)
    a[i] = float(n)


tg.config.mode = "debug"
tg.launch(scaled, dim=8, inputs=[tg.zeros(8)], block_dim=8)
