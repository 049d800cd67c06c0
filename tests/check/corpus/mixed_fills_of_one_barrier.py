"""Items that copies fill and items that threads fill share a barrier, which counts the arrivals of threads."""

ITEM = 15
KIND = "arrivals"
WORDS = ("full", "ws0")
WRONG = """def mixed(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(4, stages=S), tg.mbarrier(4, stages=S)
    with tg.ws(0):
        for k in range(n):
            s = k % S
            tg.mbarrier_wait(empty, s, k // S + 1)
            if k % 2 == 0:
                tg.mbarrier_expect_bytes(full, s, N * 4)
                tg.tile_load_async(x, ring[s], (k, 0), full, s)
            else:
                ring[s] = tg.tile_load(x, shape=(1, N), offset=(k, 0)) * 3.0
                tg.fence_async()
                tg.mbarrier_arrive(full, s)
    with tg.ws(1):
        for k in range(n):
            s = k % S
            tg.mbarrier_wait(full, s, k // S)
            tg.tile_store(out, ring[s] * 2.0, offset=(k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)
"""
RIGHT = """def mixed(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(5, stages=S), tg.mbarrier(4, stages=S)
    with tg.ws(0):
        for k in range(n):
            s = k % S
            tg.mbarrier_wait(empty, s, k // S + 1)
            if k % 2 == 0:
                tg.mbarrier_expect_bytes(full, s, N * 4)
                tg.tile_load_async(x, ring[s], (k, 0), full, s)
                tg.mbarrier_arrive(full, s)
            else:
                ring[s] = tg.tile_load(x, shape=(1, N), offset=(k, 0)) * 3.0
                tg.fence_async()
                tg.mbarrier_arrive(full, s)
                if tg.elect():
                    tg.mbarrier_arrive(full, s)
    with tg.ws(1):
        for k in range(n):
            s = k % S
            tg.mbarrier_wait(full, s, k // S)
            tg.tile_store(out, ring[s] * 2.0, offset=(k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)
"""
