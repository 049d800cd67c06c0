"""Several roles read a stage one after another, and only the last one gives it back."""

import tegula as tg


@tg.kernel
def partial_release(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring0 = tg.tile_empty(shape=(3, 1, 8), dtype=float, storage="shared")
    full_ring = tg.mbarrier(1, stages=3)
    empty_ring = tg.mbarrier(4, stages=3)
    pass0 = tg.mbarrier(4, stages=3)
    with tg.role("load", warps=1):
        for i in range(n):
            s_ring, p_ring = i % 3, i // 3 & 1
            tg.mbarrier_wait(empty_ring, s_ring, p_ring ^ 1)
            tg.mbarrier_expect_bytes(full_ring, s_ring, 32)
            tg.tile_load_async(x, ring0[s_ring], offset=(i, 0), barrier=full_ring, stage=s_ring)
    with tg.role("c0", warp_groups=1):
        for i in range(n):
            s_ring, p_ring = i % 3, i // 3 & 1
            tg.mbarrier_wait(full_ring, s_ring, p_ring)
            tg.tile_store(out, ring0[s_ring] * 2.0, offset=(i, 0 * 8))
            tg.fence_async()
            tg.mbarrier_arrive(pass0, s_ring)
    with tg.role("c1", warp_groups=1):
        c_ring = 0
        for i in range(n):
            s_ring = c_ring % 3
            tg.mbarrier_wait(full_ring, s_ring, c_ring // 3 & 1)
            tg.tile_store(out, ring0[s_ring] * 2.0, offset=(i, 1 * 8))
            tg.fence_async()
            tg.mbarrier_wait(pass0, s_ring, c_ring // 3 & 1)
            tg.mbarrier_arrive(empty_ring, s_ring)
            c_ring = c_ring + 1
