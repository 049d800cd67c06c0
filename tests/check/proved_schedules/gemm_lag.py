"""A stage is given back one step late, in a branch with the wait for the matmul before."""

import tegula as tg


@tg.kernel
def gemm_lag(a: tg.array2d[tg.bfloat16], b: tg.array2d[tg.bfloat16], c: tg.array2d[float], steps: int):
    i, j = tg.tid()
    ring0 = tg.tile_empty(shape=(4, 64, 64), dtype=tg.bfloat16, storage="shared")
    ring1 = tg.tile_empty(shape=(4, 64, 64), dtype=tg.bfloat16, storage="shared")
    full_ring = tg.mbarrier(1, stages=4)
    empty_ring = tg.mbarrier(4, stages=4)
    with tg.ws(0):
        for q in range(steps):
            q_ring = q // 4
            s_ring = q - q_ring * 4
            p_ring = q_ring & 1
            if tg.elect():
                tg.mbarrier_wait(empty_ring, s_ring, p_ring ^ 1)
                tg.mbarrier_expect_bytes(full_ring, s_ring, 16384)
                tg.tile_load_async(a, ring0[s_ring], offset=(i * 64, q * 64), barrier=full_ring, stage=s_ring)
                tg.tile_load_async(b, ring1[s_ring], offset=(q * 64, j * 64), barrier=full_ring, stage=s_ring)
    with tg.ws(1):
        total = tg.tile_zeros(shape=(64, 64), dtype=tg.float32)
        for q in range(steps):
            s_ring, p_ring = q % 4, q // 4 & 1
            tg.mbarrier_wait(full_ring, s_ring, p_ring)
            tg.tile_matmul(ring0[s_ring], ring1[s_ring], total, wait=False)
            if q > 0:
                tg.tile_matmul_wait(pending=1)
                tg.mbarrier_arrive(empty_ring, (q + 3) % 4)
        tg.tile_matmul_wait(pending=0)
        tg.tile_store(c, total, offset=(i * 64, j * 64))
