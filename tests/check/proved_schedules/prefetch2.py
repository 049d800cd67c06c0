"""The first items are filled without a wait, as many as an argument says."""

import tegula as tg


@tg.kernel
def prefetch2(x: tg.array2d[float], out: tg.array2d[float], n: int, d: int):
    assert d >= 0
    assert d <= 1
    ring0 = tg.tile_empty(shape=(1, 1, 8), dtype=float, storage="shared")
    full_ring = tg.mbarrier(1, stages=1)
    empty_ring = tg.mbarrier(4, stages=1)
    with tg.role("load", warps=1):
        for i in range(min(d, n)):
            tg.mbarrier_expect_bytes(full_ring, i % 1, 32)
            tg.tile_load_async(x, ring0[i % 1], offset=(i, 0), barrier=full_ring, stage=i % 1)
        for i in range(d, n):
            tg.mbarrier_wait(empty_ring, i % 1, (i // 1 + 1) % 2)
            tg.mbarrier_expect_bytes(full_ring, i % 1, 32)
            tg.tile_load_async(x, ring0[i % 1], offset=(i, 0), barrier=full_ring, stage=i % 1)
    with tg.role("use", warp_groups=1):
        c_ring = 0
        for i in range(n):
            s_ring = c_ring % 1
            p_ring = c_ring // 1 % 2
            tg.mbarrier_wait(full_ring, s_ring, p_ring)
            tg.tile_store(out, ring0[s_ring] * 2.0, offset=(i, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty_ring, s_ring)
            c_ring = c_ring + 1
