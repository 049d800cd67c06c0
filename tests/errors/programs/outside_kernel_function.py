"""A function of the user needs a block of threads."""

import tegula as tg


@tg.func
def mean(x: float):
    return tg.lane_sum(x) / 32.0


print(mean(1.0))
