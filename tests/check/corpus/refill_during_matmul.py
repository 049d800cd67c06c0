"""A role fills stages without waiting for matmuls that read them."""

ITEM = 7
KIND = "race"
WORDS = ("left", "ws0")
WRONG = """def matmul(a: tg.array2d[bf16], b: tg.array2d[bf16], c: tg.array2d[float], n: int):
    left = tg.tile_empty(shape=(S, BM, BK), dtype=bf16, storage="shared")
    right = tg.tile_empty(shape=(S, BK, BN), dtype=bf16, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.ws(0):
        if tg.elect():
            for k in range(n):
                s = k % S
                tg.mbarrier_expect_bytes(full, s, (BM * BK + BK * BN) * 2)
                tg.tile_load_async(a, left[s], (0, k * BK), full, s)
                tg.tile_load_async(b, right[s], (k * BK, 0), full, s)
    with tg.ws(1):
        acc = tg.tile_zeros(shape=(BM, BN), dtype=tg.float32)
        for k in range(n):
            s = k % S
            tg.mbarrier_wait(full, s, k // S)
            tg.tile_matmul(left[s], right[s], acc)
            tg.mbarrier_arrive(empty, s)
        tg.tile_store(c, acc)
"""
RIGHT = """def matmul(a: tg.array2d[bf16], b: tg.array2d[bf16], c: tg.array2d[float], n: int):
    left = tg.tile_empty(shape=(S, BM, BK), dtype=bf16, storage="shared")
    right = tg.tile_empty(shape=(S, BK, BN), dtype=bf16, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.ws(0):
        if tg.elect():
            for k in range(n):
                s = k % S
                tg.mbarrier_wait(empty, s, k // S + 1)
                tg.mbarrier_expect_bytes(full, s, (BM * BK + BK * BN) * 2)
                tg.tile_load_async(a, left[s], (0, k * BK), full, s)
                tg.tile_load_async(b, right[s], (k * BK, 0), full, s)
    with tg.ws(1):
        acc = tg.tile_zeros(shape=(BM, BN), dtype=tg.float32)
        for k in range(n):
            s = k % S
            tg.mbarrier_wait(full, s, k // S)
            tg.tile_matmul(left[s], right[s], acc)
            tg.mbarrier_arrive(empty, s)
        tg.tile_store(c, acc)
"""
