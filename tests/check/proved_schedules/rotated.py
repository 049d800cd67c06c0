"""The first stage is an argument, and the parity changes there."""

import tegula as tg


@tg.kernel
def rotated(x: tg.array2d[float], out: tg.array2d[float], n: int, s0: int):
    assert s0 >= 0
    assert s0 < 2
    ring0 = tg.tile_empty(shape=(2, 1, 8), dtype=float, storage="shared")
    full_ring = tg.mbarrier(1, stages=2)
    empty_ring = tg.mbarrier(4, stages=2)
    with tg.role("load", warps=1):
        s = s0
        ph = 1
        for i in range(n):
            tg.mbarrier_wait(empty_ring, s, ph)
            tg.mbarrier_expect_bytes(full_ring, s, 32)
            tg.tile_load_async(x, ring0[s], offset=(i, 0), barrier=full_ring, stage=s)
            s += 1
            if s == 2:
                s = 0
            if s == s0:
                ph ^= 1
    with tg.role("use", warp_groups=1):
        s = s0
        ph = 0
        for i in range(n):
            tg.mbarrier_wait(full_ring, s, ph)
            tg.tile_store(out, ring0[s] * 2.0, offset=(i, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty_ring, s)
            s += 1
            if s == 2:
                s = 0
            if s == s0:
                ph ^= 1
