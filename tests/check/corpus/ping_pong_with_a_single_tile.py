"""Two roles process tiles alternately; with one tile fewer, the second role waits for a turn that never starts."""

ITEM = 19
KIND = "deadlock"
WORDS = ("ws1", "order")
WRONG = """def turns(x: tg.array2d[float], out: tg.array2d[float], n: int):
    order = tg.mbarrier(4, stages=2)
    with tg.ws(0):
        for k in range(n // 2):
            tg.mbarrier_wait(order, 0, k + 1)
            tg.tile_store(out, tg.tile_load(x, shape=(1, N), offset=(2 * k, 0)), offset=(2 * k, 0))
            tg.mbarrier_arrive(order, 1)
    with tg.ws(1):
        for k in range((n + 1) // 2):
            tg.mbarrier_wait(order, 1, k)
            tg.tile_store(out, tg.tile_load(x, shape=(1, N), offset=(2 * k + 1, 0)), offset=(2 * k + 1, 0))
            tg.mbarrier_arrive(order, 0)
"""
RIGHT = """def turns(x: tg.array2d[float], out: tg.array2d[float], n: int):
    order = tg.mbarrier(4, stages=2)
    with tg.ws(0):
        for k in range((n + 1) // 2):
            tg.mbarrier_wait(order, 0, k + 1)
            tg.tile_store(out, tg.tile_load(x, shape=(1, N), offset=(2 * k, 0)), offset=(2 * k, 0))
            tg.mbarrier_arrive(order, 1)
    with tg.ws(1):
        for k in range(n // 2):
            tg.mbarrier_wait(order, 1, k)
            tg.tile_store(out, tg.tile_load(x, shape=(1, N), offset=(2 * k + 1, 0)), offset=(2 * k + 1, 0))
            tg.mbarrier_arrive(order, 0)
"""
