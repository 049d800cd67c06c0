"""Results are staged in an operand stage that the other role fills for the next tile."""

ITEM = 13
KIND = "race"
WORDS = ("ring",)
WRONG = """def tiles(a: tg.array2d[float], out: tg.array2d[float], rows: int, n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    stage = tg.tile_empty(shape=(1, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.ws(0):
        if tg.elect():
            item = 0
            for i, j in tg.persistent_tiles((rows, 1)):
                for k in range(n):
                    tg.mbarrier_wait(empty, item % S, item // S + 1)
                    tg.mbarrier_expect_bytes(full, item % S, N * 4)
                    tg.tile_load_async(a, ring[item % S], (i, k * N), full, item % S)
                    item += 1
    with tg.ws(1):
        item = 0
        for i, j in tg.persistent_tiles((rows, 1)):
            total = tg.tile_zeros(shape=(1, N))
            for k in range(n):
                tg.mbarrier_wait(full, item % S, item // S)
                total += ring[item % S]
                tg.fence_async()
                tg.mbarrier_arrive(empty, item % S)
                item += 1
            ring[0] = total
            tg.fence_async()
            tg.tile_store_async(out, ring[0], (i, 0))
            tg.store_commit()
            tg.store_wait(read=True)
"""
RIGHT = """def tiles(a: tg.array2d[float], out: tg.array2d[float], rows: int, n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    stage = tg.tile_empty(shape=(1, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.ws(0):
        if tg.elect():
            item = 0
            for i, j in tg.persistent_tiles((rows, 1)):
                for k in range(n):
                    tg.mbarrier_wait(empty, item % S, item // S + 1)
                    tg.mbarrier_expect_bytes(full, item % S, N * 4)
                    tg.tile_load_async(a, ring[item % S], (i, k * N), full, item % S)
                    item += 1
    with tg.ws(1):
        item = 0
        for i, j in tg.persistent_tiles((rows, 1)):
            total = tg.tile_zeros(shape=(1, N))
            for k in range(n):
                tg.mbarrier_wait(full, item % S, item // S)
                total += ring[item % S]
                tg.fence_async()
                tg.mbarrier_arrive(empty, item % S)
                item += 1
            stage[0] = total
            tg.fence_async()
            tg.tile_store_async(out, stage[0], (i, 0))
            tg.store_commit()
            tg.store_wait(read=True)
"""
