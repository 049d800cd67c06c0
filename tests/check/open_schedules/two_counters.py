"""The item is the number of all steps of all tiles less the number that is left."""

import tegula as tg


@tg.kernel
def two_counters(x: tg.array2d[float], out: tg.array2d[float], tiles: int, steps: int):
    assert steps >= 0
    assert tiles >= 0
    ring0 = tg.tile_empty(shape=(6, 1, 8), dtype=float, storage="shared")
    full_ring = tg.mbarrier(1, stages=6)
    empty_ring = tg.mbarrier(4, stages=6)
    with tg.ws(0):
        x2 = 0
        for t in range(tiles):
            for q in range(steps):
                x_ = x2 // 2
                if tg.elect():
                    tg.mbarrier_wait(empty_ring, x_ % 6, (x_ // 6 & 1) ^ 1)
                    tg.mbarrier_expect_bytes(full_ring, x_ % 6, 32)
                    tg.tile_load_async(x, ring0[x_ % 6], offset=(x_, 0), barrier=full_ring, stage=x_ % 6)
                x2 += 2
    with tg.ws(1):
        x_ = -1
        for t in range(tiles):
            for q in range(steps):
                x_ += 1
                tg.mbarrier_wait(full_ring, x_ % 6, x_ // 6 & 1)
                tg.tile_store(out, ring0[x_ % 6] * 2.0, offset=(x_, 0))
                tg.fence_async()
                tg.mbarrier_arrive(empty_ring, x_ % 6)
                z = 0
