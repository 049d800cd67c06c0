"""An operand is kept while its key stays the same, and given back at the next key."""

import tegula as tg


@tg.kernel
def key_change(
    x: tg.array2d[float], y: tg.array2d[float], key: tg.array[int], out: tg.array2d[float], n: int
):
    ra0 = tg.tile_empty(shape=(5, 1, 8), dtype=float, storage="shared")
    full_ra = tg.mbarrier(1, stages=5)
    empty_ra = tg.mbarrier(4, stages=5)
    rb0 = tg.tile_empty(shape=(2, 1, 8), dtype=float, storage="shared")
    full_rb = tg.mbarrier(1, stages=2)
    empty_rb = tg.mbarrier(4, stages=2)
    with tg.ws(0):
        c_rb = 0
        last = -1
        for i in range(n):
            if i == 0 or key[i] != last:
                s_rb = c_rb % 2
                p_rb = c_rb // 2 & 1
                if tg.elect():
                    tg.mbarrier_wait(empty_rb, s_rb, p_rb ^ 1)
                    tg.mbarrier_expect_bytes(full_rb, s_rb, 32)
                    tg.tile_load_async(y, rb0[s_rb], offset=(key[i], 0), barrier=full_rb, stage=s_rb)
                c_rb += 1
                last = key[i]
            s_ra, p_ra = i % 5, i // 5 & 1
            if tg.elect():
                tg.mbarrier_wait(empty_ra, s_ra, p_ra ^ 1)
                tg.mbarrier_expect_bytes(full_ra, s_ra, 32)
                tg.tile_load_async(x, ra0[s_ra], offset=(i, 0), barrier=full_ra, stage=s_ra)
    with tg.ws(1):
        c_ra = 0
        c_rb = 0
        last = -1
        for i in range(n):
            if i == 0 or key[i] != last:
                tg.mbarrier_wait(full_rb, c_rb % 2, c_rb // 2 & 1)
                last = key[i]
            s_ra = c_ra % 5
            tg.mbarrier_wait(full_ra, s_ra, c_ra // 5 & 1)
            tg.tile_store(out, ra0[s_ra] * rb0[c_rb % 2], offset=(i, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty_ra, s_ra)
            c_ra = c_ra + 1
            if i == n - 1 or key[i + 1] != key[i]:
                tg.mbarrier_arrive(empty_rb, c_rb % 2)
                c_rb += 1
