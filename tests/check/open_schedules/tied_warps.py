"""All warps of the role that fills a ring arrive, and one of them announces the bytes."""

import tegula as tg


@tg.kernel
def tied_warps(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring0 = tg.tile_empty(shape=(4, 1, 8), dtype=float, storage="shared")
    full_ring = tg.mbarrier(9, stages=4)
    empty_ring = tg.mbarrier(1, stages=4)
    own = tg.named_barrier(8)
    with tg.role("load", warps=8):
        for i in range(n):
            s_ring, p_ring = i % 4, i // 4 & 1
            tg.mbarrier_wait(empty_ring, s_ring, p_ring ^ 1)
            tg.mbarrier_expect_bytes(full_ring, s_ring, 32)
            tg.mbarrier_arrive(full_ring, s_ring)
            tg.tile_load_async(x, ring0[s_ring], offset=(i, 0), barrier=full_ring, stage=s_ring)
    with tg.role("use", warps=1):
        for i in range(n):
            s_ring, p_ring = i % 4, i // 4 & 1
            tg.mbarrier_wait(full_ring, s_ring, p_ring)
            tg.tile_store(out, ring0[s_ring] * 2.0, offset=(i, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty_ring, s_ring)
