"""Two roles fetch for one full barrier that counts one arrival."""

ITEM = 1
KIND = "arrivals"
WORDS = ("full", "fetch")
WRONG = """def sums(x: tg.array2d[float], y: tg.array2d[float], out: tg.array2d[float], n: int):
    left = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    right = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.role("fetch x", warps=1):
        for k in range(n):
            s = k % S
            tg.mbarrier_wait(empty, s, k // S + 1)
            tg.mbarrier_expect_bytes(full, s, N * 4)
            tg.tile_load_async(x, left[s], (k, 0), full, s)
    with tg.role("fetch y", warps=1):
        for k in range(n):
            s = k % S
            tg.mbarrier_wait(empty, s, k // S + 1)
            tg.mbarrier_expect_bytes(full, s, N * 4)
            tg.tile_load_async(y, right[s], (k, 0), full, s)
    with tg.role("add", warp_groups=1):
        for k in range(n):
            s = k % S
            tg.mbarrier_wait(full, s, k // S)
            tg.tile_store(out, left[s] + right[s], offset=(k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)
"""
RIGHT = """def sums(x: tg.array2d[float], y: tg.array2d[float], out: tg.array2d[float], n: int):
    left = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    right = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(2, stages=S), tg.mbarrier(4, stages=S)
    with tg.role("fetch x", warps=1):
        for k in range(n):
            s = k % S
            tg.mbarrier_wait(empty, s, k // S + 1)
            tg.mbarrier_expect_bytes(full, s, N * 4)
            tg.tile_load_async(x, left[s], (k, 0), full, s)
    with tg.role("fetch y", warps=1):
        for k in range(n):
            s = k % S
            tg.mbarrier_wait(empty, s, k // S + 1)
            tg.mbarrier_expect_bytes(full, s, N * 4)
            tg.tile_load_async(y, right[s], (k, 0), full, s)
    with tg.role("add", warp_groups=1):
        for k in range(n):
            s = k % S
            tg.mbarrier_wait(full, s, k // S)
            tg.tile_store(out, left[s] + right[s], offset=(k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)
"""
