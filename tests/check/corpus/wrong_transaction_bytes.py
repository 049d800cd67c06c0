"""Half of the bytes of an item are announced."""

ITEM = 9
KIND = "bytes"
WORDS = ("full", "bytes")
WRONG = """def copies(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.ws(0):
        if tg.elect():
            for k in range(n):
                s = k % S
                tg.mbarrier_wait(empty, s, k // S + 1)
                tg.mbarrier_expect_bytes(full, s, N * 2)
                tg.tile_load_async(x, ring[s], (k, 0), full, s)
    with tg.ws(1):
        for k in range(n):
            s = k % S
            tg.mbarrier_wait(full, s, k // S)
            tg.tile_store(out, ring[s] * 2.0, offset=(k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)
"""
RIGHT = """def copies(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.ws(0):
        if tg.elect():
            for k in range(n):
                s = k % S
                tg.mbarrier_wait(empty, s, k // S + 1)
                tg.mbarrier_expect_bytes(full, s, N * 4)
                tg.tile_load_async(x, ring[s], (k, 0), full, s)
    with tg.ws(1):
        for k in range(n):
            s = k % S
            tg.mbarrier_wait(full, s, k // S)
            tg.tile_store(out, ring[s] * 2.0, offset=(k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)
"""
