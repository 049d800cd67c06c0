"""A role changes a stage in place, another one copies the stage out and gives it back: three roles hand the ring
on in a circle."""

import tegula as tg


@tg.kernel
def in_place(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring0 = tg.tile_empty(shape=(3, 1, 8), dtype=float, storage="shared")
    full_ring = tg.mbarrier(1, stages=3)
    empty_ring = tg.mbarrier(1, stages=3)
    mid = tg.mbarrier(2, stages=3)
    with tg.role("load", warps=1):
        for i in range(n):
            s_ring, p_ring = i % 3, i // 3 & 1
            tg.mbarrier_wait(empty_ring, s_ring, p_ring ^ 1)
            tg.mbarrier_expect_bytes(full_ring, s_ring, 32)
            tg.tile_load_async(x, ring0[s_ring], offset=(i, 0), barrier=full_ring, stage=s_ring)
    with tg.role("edit", warps=2):
        c_ring = 0
        for i in range(n):
            s_ring = c_ring % 3
            tg.mbarrier_wait(full_ring, s_ring, c_ring // 3 & 1)
            ring0[s_ring] = ring0[s_ring] * 3.0
            tg.fence_async()
            tg.mbarrier_arrive(mid, s_ring)
            c_ring = c_ring + 1
    with tg.role("out", warps=1):
        for i in range(n):
            s_ring, p_ring = i % 3, i // 3 & 1
            tg.mbarrier_wait(mid, s_ring, p_ring)
            tg.tile_store_async(out, ring0[s_ring], offset=(i, 0))
            tg.store_commit()
            tg.store_wait(read=True)
            tg.mbarrier_arrive(empty_ring, s_ring)
