"""One ring has an item for every few items of another one, given back after the last of these."""

import tegula as tg


@tg.kernel
def scales(x: tg.array2d[float], y: tg.array2d[float], out: tg.array2d[float], n: int):
    ra0 = tg.tile_empty(shape=(1, 1, 8), dtype=float, storage="shared")
    full_ra = tg.mbarrier(1, stages=1)
    empty_ra = tg.mbarrier(4, stages=1)
    rb0 = tg.tile_empty(shape=(1, 1, 8), dtype=float, storage="shared")
    full_rb = tg.mbarrier(1, stages=1)
    empty_rb = tg.mbarrier(4, stages=1)
    with tg.ws(0):
        c_rb = 0
        for i in range(n):
            if i % 4 == 0:
                s_rb = c_rb % 1
                p_rb = c_rb // 1 & 1
                if tg.elect():
                    tg.mbarrier_wait(empty_rb, s_rb, p_rb ^ 1)
                    tg.mbarrier_expect_bytes(full_rb, s_rb, 32)
                    tg.tile_load_async(y, rb0[s_rb], offset=(i // 4, 0), barrier=full_rb, stage=s_rb)
                c_rb += 1
            q_ra = i // 1
            s_ra = i - q_ra * 1
            p_ra = q_ra & 1
            if tg.elect():
                tg.mbarrier_wait(empty_ra, s_ra, p_ra ^ 1)
                tg.mbarrier_expect_bytes(full_ra, s_ra, 32)
                tg.tile_load_async(x, ra0[s_ra], offset=(i, 0), barrier=full_ra, stage=s_ra)
    with tg.ws(1):
        for i in range(n):
            s_rb, p_rb = (i // 4) % 1, (i // 4) // 1 & 1
            if i % 4 == 0:
                tg.mbarrier_wait(full_rb, s_rb, p_rb)
            s_ra, p_ra = i % 1, i // 1 & 1
            tg.mbarrier_wait(full_ra, s_ra, p_ra)
            tg.tile_store(out, ra0[s_ra] * rb0[s_rb], offset=(i, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty_ra, s_ra)
            if i % 4 == 3 or i == n - 1:
                tg.mbarrier_arrive(empty_rb, s_rb)
