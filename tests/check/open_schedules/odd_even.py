"""Even items of a ring are for one role, odd items for another one."""

import tegula as tg


@tg.kernel
def odd_even(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring0 = tg.tile_empty(shape=(4, 1, 8), dtype=float, storage="shared")
    full_ring = tg.mbarrier(1, stages=4)
    empty_ring = tg.mbarrier(4, stages=4)
    with tg.ws(0):
        if tg.elect():
            for i in range(n):
                s_ring, p_ring = i % 4, i // 4 & 1
                tg.mbarrier_wait(empty_ring, s_ring, p_ring ^ 1)
                tg.mbarrier_expect_bytes(full_ring, s_ring, 32)
                tg.tile_load_async(x, ring0[s_ring], offset=(i, 0), barrier=full_ring, stage=s_ring)
    with tg.ws(1):
        for i in range(n):
            if i % 2 == 0:
                tg.mbarrier_wait(full_ring, i % 4, i // 4 & 1)
                tg.tile_store(out, ring0[i % 4] * 2.0, offset=(i, 0))
                tg.fence_async()
                tg.mbarrier_arrive(empty_ring, i % 4)
    with tg.ws(2):
        for i in range(n):
            if i % 2 == 1:
                tg.mbarrier_wait(full_ring, i % 4, i // 4 & 1)
                tg.tile_store(out, ring0[i % 4] * 2.0, offset=(i, 0))
                tg.fence_async()
                tg.mbarrier_arrive(empty_ring, i % 4)
