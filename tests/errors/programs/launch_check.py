"""A value of check= that does not exist."""

import tegula as tg


@tg.kernel(check="none")
def fill(x: tg.array1d[float]):
    x[tg.tid()] = 1.0


tg.launch(fill, dim=8, outputs=[tg.zeros(8)])
