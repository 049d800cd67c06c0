"""Some items of a tile are left out by all roles, by the same condition."""

import tegula as tg


@tg.kernel
def masked(x: tg.array2d[float], mask: tg.array[int], out: tg.array2d[float], n: int, m: int):
    ring0 = tg.tile_empty(shape=(3, 1, 8), dtype=float, storage="shared")
    full_ring = tg.mbarrier(1, stages=3)
    empty_ring = tg.mbarrier(8, stages=3)
    with tg.ws(0):
        if tg.elect():
            c_ring = 0
            i = 0
            while i < n:
                if i < m:
                    s_ring = c_ring % 3
                    tg.mbarrier_wait(empty_ring, s_ring, (c_ring // 3 % 2) ^ 1)
                    tg.mbarrier_expect_bytes(full_ring, s_ring, 32)
                    tg.tile_load_async(x, ring0[s_ring], offset=(i, 0), barrier=full_ring, stage=s_ring)
                    c_ring = c_ring + 1
                i += 1
    with tg.ws(1, 2):
        s_ring = 0
        p_ring = 0
        for i in range(n):
            if not (i < m):
                continue
            tg.mbarrier_wait(full_ring, s_ring, p_ring)
            tg.tile_store(out, ring0[s_ring] * 2.0, offset=(i, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty_ring, s_ring)
            s_ring = (s_ring + 1) % 3
            if s_ring == 0:
                p_ring = 1 - p_ring
