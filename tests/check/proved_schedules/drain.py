"""The role that fills a ring waits at its end until the last item was given back."""

import tegula as tg


@tg.kernel
def drain(x: tg.array2d[float], out: tg.array2d[float], n: int):
    assert n >= 0
    ring0 = tg.tile_empty(shape=(6, 1, 8), dtype=float, storage="shared")
    full_ring = tg.mbarrier(1, stages=6)
    empty_ring = tg.mbarrier(4, stages=6)
    with tg.role("load", warps=1):
        s_ring = 0
        p_ring = 0
        for i in range(n):
            tg.mbarrier_wait(empty_ring, s_ring, p_ring ^ 1)
            tg.mbarrier_expect_bytes(full_ring, s_ring, 32)
            tg.tile_load_async(x, ring0[s_ring], offset=(i, 0), barrier=full_ring, stage=s_ring)
            s_ring = (s_ring + 1) % 6
            if s_ring == 0:
                p_ring = 1 - p_ring
        if n > 0:
            tg.mbarrier_wait(empty_ring, (n - 1) % 6, (n - 1) // 6 & 1)
    with tg.role("use", warp_groups=1):
        for i in range(n):
            s_ring, p_ring = i % 6, i // 6 & 1
            tg.mbarrier_wait(full_ring, s_ring, p_ring)
            tg.tile_store(out, ring0[s_ring] * 2.0, offset=(i, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty_ring, s_ring)
