"""Correct schedules in the idioms that users write, and wrong variants of them."""

from __future__ import annotations

RIGHT: dict[str, str] = {
    "stage and phase are carried": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.ws(0):
        if tg.elect():
            s = 0
            phase = 1
            for k in range(n):
                tg.mbarrier_wait(empty, s, phase)
                tg.mbarrier_expect_bytes(full, s, N * 4)
                tg.tile_load_async(x, ring[s], (k, 0), full, s)
                s = s + 1
                if s == S:
                    s = 0
                    phase = phase ^ 1
    with tg.ws(1):
        s = 0
        phase = 0
        for k in range(n):
            tg.mbarrier_wait(full, s, phase)
            tg.tile_store(out, ring[s] * 2.0, offset=(k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)
            s += 1
            if s == S:
                s = 0
                phase ^= 1""",
    "the waits for initially empty stages are omitted": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.ws(0):
        if tg.elect():
            for k in range(n):
                s = k % S
                if k >= S:
                    tg.mbarrier_wait(empty, s, k // S - 1)
                tg.mbarrier_expect_bytes(full, s, N * 4)
                tg.tile_load_async(x, ring[s], (k, 0), full, s)
    with tg.ws(1):
        for k in range(n):
            s = k % S
            tg.mbarrier_wait(full, s, k // S)
            tg.tile_store(out, ring[s] * 2.0, offset=(k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)""",
    "readers arrive once before they begin": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.ws(0):
        if tg.elect():
            for k in range(n):
                s = k % S
                tg.mbarrier_wait(empty, s, k // S)
                tg.mbarrier_expect_bytes(full, s, N * 4)
                tg.tile_load_async(x, ring[s], (k, 0), full, s)
    with tg.ws(1):
        for s in range(S):
            tg.mbarrier_arrive(empty, s)
        for k in range(n):
            s = k % S
            tg.mbarrier_wait(full, s, k // S)
            tg.tile_store(out, ring[s] * 2.0, offset=(k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)""",
    "the first stages are filled before the loop": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.ws(0):
        if tg.elect():
            for s in range(tg.min(S, n)):
                tg.mbarrier_expect_bytes(full, s, N * 4)
                tg.tile_load_async(x, ring[s], (s, 0), full, s)
            for k in range(S, n):
                s = k % S
                tg.mbarrier_wait(empty, s, k // S - 1)
                tg.mbarrier_expect_bytes(full, s, N * 4)
                tg.tile_load_async(x, ring[s], (k, 0), full, s)
    with tg.ws(1):
        for k in range(n):
            s = k % S
            tg.mbarrier_wait(full, s, k // S)
            tg.tile_store(out, ring[s] * 2.0, offset=(k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)""",
    "the role that fetches waits for the last releases": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.ws(0):
        if tg.elect():
            for k in range(n):
                s = k % S
                tg.mbarrier_wait(empty, s, k // S + 1)
                tg.mbarrier_expect_bytes(full, s, N * 4)
                tg.tile_load_async(x, ring[s], (k, 0), full, s)
            for k in range(tg.max(n, 0), tg.max(n, 0) + S):
                tg.mbarrier_wait(empty, k % S, k // S + 1)
    with tg.ws(1):
        for k in range(n):
            s = k % S
            tg.mbarrier_wait(full, s, k // S)
            tg.tile_store(out, ring[s] * 2.0, offset=(k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)""",
    "a counter over all tiles, no first waits": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int, m: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.ws(0):
        if tg.elect():
            it = 0
            for i in range(n):
                for k in range(m):
                    s = it % S
                    if it >= S:
                        tg.mbarrier_wait(empty, s, it // S - 1)
                    tg.mbarrier_expect_bytes(full, s, N * 4)
                    tg.tile_load_async(x, ring[s], (i * m + k, 0), full, s)
                    it += 1
    with tg.ws(1):
        it = 0
        for i in range(n):
            for k in range(m):
                s = it % S
                tg.mbarrier_wait(full, s, it // S)
                tg.tile_store(out, ring[s] * 2.0, offset=(i * m + k, 0))
                tg.fence_async()
                tg.mbarrier_arrive(empty, s)
                it += 1""",
    "the item index is computed from tile and iteration": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int, m: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.ws(0):
        if tg.elect():
            for i in range(n):
                for k in range(m):
                    it = i * m + k
                    s = it % S
                    tg.mbarrier_wait(empty, s, it // S + 1)
                    tg.mbarrier_expect_bytes(full, s, N * 4)
                    tg.tile_load_async(x, ring[s], (it, 0), full, s)
    with tg.ws(1):
        for i in range(n):
            for k in range(m):
                it = i * m + k
                s = it % S
                tg.mbarrier_wait(full, s, it // S)
                tg.tile_store(out, ring[s] * 2.0, offset=(it, 0))
                tg.fence_async()
                tg.mbarrier_arrive(empty, s)""",
    "each tile takes more iterations": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.ws(0):
        if tg.elect():
            it = 0
            for i in range(n):
                for k in range(i + 1):
                    s = it % S
                    tg.mbarrier_wait(empty, s, it // S + 1)
                    tg.mbarrier_expect_bytes(full, s, N * 4)
                    tg.tile_load_async(x, ring[s], (k, 0), full, s)
                    it += 1
    with tg.ws(1):
        it = 0
        for i in range(n):
            for k in range(i + 1):
                s = it % S
                tg.mbarrier_wait(full, s, it // S)
                tg.tile_store(out, ring[s] * 2.0, offset=(k, 0))
                tg.fence_async()
                tg.mbarrier_arrive(empty, s)
                it += 1""",
    "counts are read from an array": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], counts: tg.array1d[int], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    i = tg.tid()
    b, j = tg.tid()
    c = counts[b]
    with tg.ws(0):
        if tg.elect():
            for k in range(c):
                s = k % S
                tg.mbarrier_wait(empty, s, k // S + 1)
                tg.mbarrier_expect_bytes(full, s, N * 4)
                tg.tile_load_async(x, ring[s], (k, 0), full, s)
    with tg.ws(1):
        for k in range(c):
            s = k % S
            tg.mbarrier_wait(full, s, k // S)
            tg.tile_store(out, ring[s] * 2.0, offset=(k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)""",
    "rounded division": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.ws(0):
        if tg.elect():
            for k in range((n + 63) // 64):
                s = k % S
                tg.mbarrier_wait(empty, s, k // S + 1)
                tg.mbarrier_expect_bytes(full, s, N * 4)
                tg.tile_load_async(x, ring[s], (k, 0), full, s)
    with tg.ws(1):
        for k in range((n + 63) // 64):
            s = k % S
            tg.mbarrier_wait(full, s, k // S)
            tg.tile_store(out, ring[s] * 2.0, offset=(k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)""",
    "a loop by steps and a rounded division": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.ws(0):
        if tg.elect():
            for k in range((n + 63) // 64):
                s = k % S
                tg.mbarrier_wait(empty, s, k // S + 1)
                tg.mbarrier_expect_bytes(full, s, N * 4)
                tg.tile_load_async(x, ring[s], (k, 0), full, s)
    with tg.ws(1):
        k = 0
        for kk in range(0, n, 64):
            s = k % S
            tg.mbarrier_wait(full, s, k // S)
            tg.tile_store(out, ring[s] * 2.0, offset=(k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)
            k += 1""",
    "a while loop and a for loop": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
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
        k = 0
        while k < n:
            s = k % S
            tg.mbarrier_wait(full, s, k // S)
            tg.tile_store(out, ring[s] * 2.0, offset=(k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)
            k += 1""",
    "blocks without work return": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int, m: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    b, j = tg.tid()
    with tg.ws(0):
        if b >= m:
            return
        for k in range(n):
            s = k % S
            tg.mbarrier_wait(empty, s, k // S + 1)
            tg.mbarrier_expect_bytes(full, s, N * 4)
            tg.tile_load_async(x, ring[s], (k, 0), full, s)
    with tg.ws(1):
        if b >= m:
            return
        for k in range(n):
            s = k % S
            tg.mbarrier_wait(full, s, k // S)
            tg.tile_store(out, ring[s] * 2.0, offset=(k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)""",
    "both roles leave the loop": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int, m: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.ws(0):
        for k in range(n):
            if k == m:
                break
            s = k % S
            tg.mbarrier_wait(empty, s, k // S + 1)
            tg.mbarrier_expect_bytes(full, s, N * 4)
            tg.tile_load_async(x, ring[s], (k, 0), full, s)
    with tg.ws(1):
        for k in range(n):
            if k == m:
                break
            s = k % S
            tg.mbarrier_wait(full, s, k // S)
            tg.tile_store(out, ring[s] * 2.0, offset=(k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)""",
    "every other iteration": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.ws(0):
        it = 0
        for k in range(n):
            if k % 2 == 0:
                s = it % S
                tg.mbarrier_wait(empty, s, it // S + 1)
                tg.mbarrier_expect_bytes(full, s, N * 4)
                tg.tile_load_async(x, ring[s], (k, 0), full, s)
                it += 1
    with tg.ws(1):
        it = 0
        for k in range(n):
            if k % 2 == 0:
                s = it % S
                tg.mbarrier_wait(full, s, it // S)
                tg.tile_store(out, ring[s] * 2.0, offset=(k, 0))
                tg.fence_async()
                tg.mbarrier_arrive(empty, s)
                it += 1""",
    "threads synchronise, then one arrives": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(1, stages=S)
    consumers = tg.named_barrier(warps=4)
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
            tg.named_barrier_sync(consumers)
            if tg.elect():
                tg.mbarrier_arrive(empty, s)""",
    "one role does everything": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.ws(0):
        for k in range(n):
            s = k % S
            if tg.elect():
                tg.mbarrier_expect_bytes(full, s, N * 4)
                tg.tile_load_async(x, ring[s], (k, 0), full, s)
            tg.mbarrier_wait(full, s, k // S)
            tg.tile_store(out, ring[s] * 2.0, offset=(k, 0))
            tg.fence_async()""",
    "one role fetches ahead": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.ws(0):
        for p in range(S - 1):
            if p < n:
                if tg.elect():
                    tg.mbarrier_expect_bytes(full, p, N * 4)
                    tg.tile_load_async(x, ring[p], (p, 0), full, p)
        for k in range(n):
            s = k % S
            ahead = k + S - 1
            tg.fence_async()
            if ahead < n:
                t = ahead % S
                if tg.elect():
                    tg.mbarrier_expect_bytes(full, t, N * 4)
                    tg.tile_load_async(x, ring[t], (ahead, 0), full, t)
            tg.mbarrier_wait(full, s, k // S)
            tg.tile_store(out, ring[s] * 2.0, offset=(k, 0))""",
    "two items in an iteration": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.ws(0):
        for k in range(2 * n):
            s = k % S
            tg.mbarrier_wait(empty, s, k // S + 1)
            tg.mbarrier_expect_bytes(full, s, N * 4)
            tg.tile_load_async(x, ring[s], (k, 0), full, s)
    with tg.ws(1):
        for h in range(n):
            for u in range(2):
                k = 2 * h + u
                s = k % S
                tg.mbarrier_wait(full, s, k // S)
                tg.tile_store(out, ring[s] * 2.0, offset=(k, 0))
                tg.fence_async()
                tg.mbarrier_arrive(empty, s)""",
    "two copies fill a stage": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 64, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.ws(0):
        for k in range(n):
            s = k % S
            tg.mbarrier_wait(empty, s, k // S + 1)
            tg.mbarrier_expect_bytes(full, s, 64 * N * 4)
            tg.tile_load_async(x, ring[s][0:32], (64 * k, 0), full, s)
            tg.tile_load_async(x, ring[s][32:64], (64 * k + 32, 0), full, s)
    with tg.ws(1):
        for k in range(n):
            s = k % S
            tg.mbarrier_wait(full, s, k // S)
            tg.tile_store(out, ring[s] * 2.0, offset=(64 * k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)""",
    "bytes are announced after the copy has started": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.ws(0):
        for k in range(n):
            s = k % S
            tg.mbarrier_wait(empty, s, k // S + 1)
            tg.tile_load_async(x, ring[s], (k, 0), full, s)
            tg.mbarrier_expect_bytes(full, s, N * 4)
    with tg.ws(1):
        for k in range(n):
            s = k % S
            tg.mbarrier_wait(full, s, k // S)
            tg.tile_store(out, ring[s] * 2.0, offset=(k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)""",
    "threads fill stages": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(4, stages=S), tg.mbarrier(4, stages=S)
    with tg.ws(0):
        for k in range(n):
            s = k % S
            tg.mbarrier_wait(empty, s, k // S + 1)
            ring[s] = tg.tile_load(x, shape=(1, N), offset=(k, 0))
            tg.mbarrier_arrive(full, s)
    with tg.ws(1):
        for k in range(n):
            s = k % S
            tg.mbarrier_wait(full, s, k // S)
            tg.tile_store(out, ring[s] * 2.0, offset=(k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)""",
    "a stage is released an iteration late, the last one never": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
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
            if k > 0:
                tg.mbarrier_arrive(empty, (k - 1) % S)""",
    "two roles alternate": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    order = tg.mbarrier(4, stages=2)
    with tg.ws(0):
        for k in range(n):
            tg.mbarrier_wait(order, 0, k + 1)
            tg.tile_store(out, tg.tile_load(x, shape=(1, N), offset=(2 * k, 0)), offset=(2 * k, 0))
            tg.mbarrier_arrive(order, 1)
    with tg.ws(1):
        for k in range(n):
            tg.mbarrier_wait(order, 1, k)
            tg.tile_store(out, tg.tile_load(x, shape=(1, N), offset=(2 * k, 0)), offset=(2 * k, 0))
            tg.mbarrier_arrive(order, 0)""",
    "a tile is read in many iterations": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int, m: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    q = tg.tile_empty(shape=(1, N), dtype=float, storage="shared")
    qfull, qempty = tg.mbarrier(1), tg.mbarrier(4)
    with tg.ws(0):
        for i in range(m):
            tg.mbarrier_wait(qempty, 0, i + 1)
            tg.mbarrier_expect_bytes(qfull, 0, N * 4)
            tg.tile_load_async(x, q, (i, 0), qfull)
            for k in range(n):
                it = i * n + k
                s = it % S
                tg.mbarrier_wait(empty, s, it // S + 1)
                tg.mbarrier_expect_bytes(full, s, N * 4)
                tg.tile_load_async(x, ring[s], (k, 0), full, s)
    with tg.ws(1):
        for i in range(m):
            tg.mbarrier_wait(qfull, 0, i)
            acc = tg.tile_zeros(shape=(1, N))
            for k in range(n):
                it = i * n + k
                s = it % S
                tg.mbarrier_wait(full, s, it // S)
                acc += q * ring[s]
                tg.fence_async()
                tg.mbarrier_arrive(empty, s)
            tg.tile_store(out, acc, offset=(i, 0))
            tg.fence_async()
            tg.mbarrier_arrive(qempty)""",
    "results leave through two buffers": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    st = tg.tile_empty(shape=(2, 1, N), dtype=float, storage="shared")
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
            t = k % 2
            tg.mbarrier_wait(full, s, k // S)
            v = ring[s] * 2.0
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)
            tg.store_wait(pending=1, read=True)
            st[t] = v
            tg.fence_async()
            tg.tile_store_async(out, st[t], (k, 0))
            tg.store_commit()
        tg.store_wait(read=True)""",
    "a copy in, a copy out": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
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
                tg.mbarrier_arrive(empty, s)""",
    "copies out are waited for an iteration late": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
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
                tg.store_wait(pending=1, read=True)
                if k > 0:
                    tg.mbarrier_arrive(empty, (k - 1) % S)
            tg.store_wait(read=True)""",
    "a role fetches ahead, the first stages before its loop": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.ws(0):
        if tg.elect():
            for s in range(S - 1):
                if s < n:
                    tg.mbarrier_expect_bytes(full, s, N * 4)
                    tg.tile_load_async(x, ring[s], (s, 0), full, s)
            for k in range(n):
                ahead = k + S - 1
                if ahead < n:
                    s = ahead % S
                    if ahead >= S:
                        tg.mbarrier_wait(empty, s, ahead // S - 1)
                    tg.mbarrier_expect_bytes(full, s, N * 4)
                    tg.tile_load_async(x, ring[s], (ahead, 0), full, s)
    with tg.ws(1):
        for k in range(n):
            s = k % S
            tg.mbarrier_wait(full, s, k // S)
            tg.tile_store(out, ring[s] * 2.0, offset=(k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)""",
    "two roles alternate at named barriers": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(8, stages=S)
    first_turn, second_turn = tg.named_barrier(warps=8), tg.named_barrier(warps=8)
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
            tg.named_barrier_sync(first_turn)
            tg.tile_store(out, ring[s] * 2.0, offset=(2 * k, 0))
            tg.named_barrier_arrive(second_turn)
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)
    with tg.ws(2):
        tg.named_barrier_arrive(first_turn)
        for k in range(n):
            s = k % S
            tg.mbarrier_wait(full, s, k // S)
            tg.named_barrier_sync(second_turn)
            tg.tile_store(out, ring[s] * 3.0, offset=(2 * k + 1, 0))
            tg.named_barrier_arrive(first_turn)
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)""",
    "full rings, then the remaining items": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
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
        for r in range(n // S):
            for s in range(S):
                tg.mbarrier_wait(full, s, r)
                tg.tile_store(out, ring[s] * 2.0, offset=(r * S + s, 0))
                tg.fence_async()
                tg.mbarrier_arrive(empty, s)
        for s in range(n % S):
            tg.mbarrier_wait(full, s, n // S)
            tg.tile_store(out, ring[s] * 2.0, offset=(n // S * S + s, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)""",
    "two roles alternate over one ring": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(4, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=4), tg.mbarrier(4, stages=4)
    with tg.ws(0):
        if tg.elect():
            for k in range(n):
                s = k % 4
                tg.mbarrier_wait(empty, s, k // 4 + 1)
                tg.mbarrier_expect_bytes(full, s, N * 4)
                tg.tile_load_async(x, ring[s], (k, 0), full, s)
    with tg.ws(1):
        for k in range(0, n, 2):
            s = k % 4
            tg.mbarrier_wait(full, s, k // 4)
            tg.tile_store(out, ring[s] * 2.0, offset=(k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)
    with tg.ws(2):
        for k in range(1, n, 2):
            s = k % 4
            tg.mbarrier_wait(full, s, k // 4)
            tg.tile_store(out, ring[s] * 2.0, offset=(k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)""",
    "groups of rows whose ends an array holds": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], ends: tg.array1d[int], groups: int):
    rows = tg.tile_pipe(shape=(4, N), dtype=float, stages=S)
    with tg.ws(0):
        start = int(0)
        for g in range(groups):
            end = ends[g]
            for i in range(start // 4, end // 4):
                tg.tile_pipe_load(rows, x, offset=(4 * i, 0))
            start = end
    with tg.ws(1):
        start = int(0)
        for g in range(groups):
            end = ends[g]
            for i in range(start // 4, end // 4):
                tg.tile_store(out, tg.tile_pipe_pop(rows) * float(g), offset=(4 * i, 0))
            start = end""",
    "items alternate between two pipes": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    even = tg.tile_pipe(shape=(1, N), dtype=float, stages=S)
    odd = tg.tile_pipe(shape=(1, N), dtype=float, stages=S)
    with tg.role("load", warps=1):
        for k in range(n):
            if k % 2 == 0:
                tg.tile_pipe_load(even, x, offset=(k, 0))
            else:
                tg.tile_pipe_load(odd, x, offset=(k, 0))
    with tg.role("evens", warps=4):
        for k in range(0, n, 2):
            tg.tile_store(out, tg.tile_pipe_pop(even) * 2.0, offset=(k, 0))
    with tg.role("odds", warps=4):
        for k in range(1, n, 2):
            tg.tile_store(out, tg.tile_pipe_pop(odd) * 3.0, offset=(k, 0))""",
    "every fourth item goes to another pipe": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    all_items = tg.tile_pipe(shape=(1, N), dtype=float, stages=S)
    fourth_items = tg.tile_pipe(shape=(1, N), dtype=float, stages=S)
    with tg.role("load", warps=1):
        for k in range(n):
            if k & 3 == 3:
                tg.tile_pipe_load(fourth_items, x, offset=(k, 0))
            tg.tile_pipe_load(all_items, x, offset=(k, 0))
    with tg.role("all", warps=4):
        for k in range(n):
            tg.tile_store(out, tg.tile_pipe_pop(all_items) * 2.0, offset=(k, 0))
    with tg.role("fourth_items", warps=4):
        for k in range(n // 4):
            tg.tile_store(out, tg.tile_pipe_pop(fourth_items) * 3.0, offset=(n + k, 0))""",
}

MUTATED: dict[str, tuple[str, str, str]] = {
    "the remaining items are omitted": ("full rings, then the remaining items", "range(n % S)", "range(0)"),
    "the remainder of another divisor": (
        "full rings, then the remaining items",
        "range(n % S)",
        "range(n % (S + 1))",
    ),
    "at most 90 full rings": (
        "full rings, then the remaining items",
        "range(n // S)",
        "range(tg.min(n // S, 90))",
    ),
    "too many full rings": ("full rings, then the remaining items", "range(n // S)", "range(n // 2)"),
    "every third item is never popped": ("two roles alternate over one ring", ", n, 2)", ", n, 3)"),
    "one consumer stops after 90 items": (
        "two roles alternate over one ring",
        "range(1, n, 2)",
        "range(1, tg.min(n, 90), 2)",
    ),
    "a group starts four rows late": (
        "groups of rows whose ends an array holds",
        "            start = end\n    with",
        "            start = end + 4\n    with",
    ),
    "a group begins one row later": (
        "groups of rows whose ends an array holds",
        "range(start // 4, end // 4):\n                tg.tile_store",
        "range((start + 1) // 4, end // 4):\n                tg.tile_store",
    ),
    "the end of the next group": (
        "groups of rows whose ends an array holds",
        "end = ends[g]\n            for i in range(start // 4, end // 4):\n                tg.tile_pipe_load",
        "end = ends[g + 1]\n            for i in range(start // 4, end // 4):\n                tg.tile_pipe_load",
    ),
    "only 90 groups": (
        "groups of rows whose ends an array holds",
        "with tg.ws(1):\n        start = int(0)\n        for g in range(groups)",
        "with tg.ws(1):\n        start = int(0)\n        for g in range(tg.min(groups, 90))",
    ),
    "every third item goes to the second pipe": (
        "items alternate between two pipes",
        "k % 2 == 0",
        "k % 3 != 0",
    ),
    "even and odd items are exchanged": ("items alternate between two pipes", "k % 2 == 0", "k % 2 == 1"),
    "the even items end at 90": (
        "items alternate between two pipes",
        "range(0, n, 2)",
        "range(0, tg.min(n, 90), 2)",
    ),
    "one fourth item too many": ("every fourth item goes to another pipe", "n // 4", "(n + 3) // 4"),
    "both roles pop the same items": (
        "two roles alternate over one ring",
        "range(1, n, 2)",
        "range(0, n, 2)",
    ),
}
"""Wrong variants: the idiom, and the lines that are changed."""
