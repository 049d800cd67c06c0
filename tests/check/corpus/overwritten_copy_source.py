"""A buffer is overwritten before the asynchronous copy from the buffer has completed."""

ITEM = 12
KIND = "race"
WORDS = ("stage", "ws1")
WRONG = """def copies(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    stage = tg.tile_empty(shape=(2, 1, N), dtype=float, storage="shared")
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
            row = ring[s] * 2.0
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)
            tg.store_wait(pending=2, read=True)
            stage[k % 2] = row
            tg.fence_async()
            tg.tile_store_async(out, stage[k % 2], (k, 0))
            tg.store_commit()
        tg.store_wait(read=True)
"""
RIGHT = """def copies(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    stage = tg.tile_empty(shape=(2, 1, N), dtype=float, storage="shared")
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
            row = ring[s] * 2.0
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)
            tg.store_wait(pending=1, read=True)
            stage[k % 2] = row
            tg.fence_async()
            tg.tile_store_async(out, stage[k % 2], (k, 0))
            tg.store_commit()
        tg.store_wait(read=True)
"""
