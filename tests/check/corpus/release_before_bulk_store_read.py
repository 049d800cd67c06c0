"""A role releases a stage that its copy to an array may still read."""

ITEM = 24
KIND = "race"
WORDS = ("ring", "ws0")
WRONG = """def copies(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(1, stages=S)
    with tg.ws(0):
        if tg.elect():
            for k in range(n):
                s = k % S
                tg.mbarrier_wait(empty, s, k // S + 1)
                tg.mbarrier_expect_bytes(full, s, N * 4)
                tg.tile_load_async(x, ring[s], (k, 0), full, s)
    with tg.ws(1):
        if tg.elect():
            for k in range(n):
                s = k % S
                tg.mbarrier_wait(full, s, k // S)
                tg.tile_store_async(out, ring[s], (k, 0))
                tg.store_commit()
                tg.mbarrier_arrive(empty, s)
            tg.store_wait(read=True)
"""
RIGHT = """def copies(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(1, stages=S)
    with tg.ws(0):
        if tg.elect():
            for k in range(n):
                s = k % S
                tg.mbarrier_wait(empty, s, k // S + 1)
                tg.mbarrier_expect_bytes(full, s, N * 4)
                tg.tile_load_async(x, ring[s], (k, 0), full, s)
    with tg.ws(1):
        if tg.elect():
            for k in range(n):
                s = k % S
                tg.mbarrier_wait(full, s, k // S)
                tg.tile_store_async(out, ring[s], (k, 0))
                tg.store_commit()
                tg.store_wait(read=True)
                tg.mbarrier_arrive(empty, s)
            tg.store_wait(read=True)
"""
