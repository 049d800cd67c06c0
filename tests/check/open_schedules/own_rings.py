"""Each of several roles has a ring of its own, which one role fills in turn."""

import tegula as tg


@tg.kernel
def own_rings(x: tg.array2d[float], out: tg.array2d[float], n: int):
    assert n >= 0
    r00 = tg.tile_empty(shape=(1, 1, 8), dtype=float, storage="shared")
    full_r0 = tg.mbarrier(1, stages=1)
    empty_r0 = tg.mbarrier(4, stages=1)
    r10 = tg.tile_empty(shape=(3, 1, 8), dtype=float, storage="shared")
    full_r1 = tg.mbarrier(1, stages=3)
    empty_r1 = tg.mbarrier(4, stages=3)
    with tg.ws(0):
        s_r0 = 0
        p_r0 = 0
        s_r1 = 0
        p_r1 = 0
        for i in range(n):
            if i % 2 == 0:
                if tg.elect():
                    tg.mbarrier_wait(empty_r0, s_r0, p_r0 ^ 1)
                    tg.mbarrier_expect_bytes(full_r0, s_r0, 32)
                    tg.tile_load_async(x, r00[s_r0], offset=(i, 0), barrier=full_r0, stage=s_r0)
                s_r0 = (s_r0 + 1) % 1
                if s_r0 == 0:
                    p_r0 = 1 - p_r0
            else:
                if tg.elect():
                    tg.mbarrier_wait(empty_r1, s_r1, p_r1 ^ 1)
                    tg.mbarrier_expect_bytes(full_r1, s_r1, 32)
                    tg.tile_load_async(x, r10[s_r1], offset=(i, 0), barrier=full_r1, stage=s_r1)
                s_r1 = (s_r1 + 1) % 3
                if s_r1 == 0:
                    p_r1 = 1 - p_r1
    with tg.ws(1):
        c_r0 = 0
        for i in range(0, n, 2):
            s_r0 = c_r0 % 1
            p_r0 = c_r0 // 1 % 2
            tg.mbarrier_wait(full_r0, s_r0, p_r0)
            tg.tile_store(out, r00[s_r0] * 2.0, offset=(i, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty_r0, s_r0)
            c_r0 = c_r0 + 1
    with tg.ws(2):
        c_r1 = 0
        for i in range(1, n, 2):
            s_r1 = c_r1 % 3
            p_r1 = c_r1 // 3 & 1
            tg.mbarrier_wait(full_r1, s_r1, p_r1)
            tg.tile_store(out, r10[s_r1] * 2.0, offset=(i, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty_r1, s_r1)
            c_r1 = c_r1 + 1
