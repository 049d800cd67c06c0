"""A kernel that was not launched has no compiled form."""

import tegula as tg


@tg.kernel
def clear(a: tg.array1d[float]):
    a[tg.tid()] = 0.0


print(clear.explain())
