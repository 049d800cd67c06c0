"""A role draws tiles from an atomic counter and stores them to slots that it hands over by barriers."""

import tegula as tg


@tg.kernel
def dynamic_slots(
    counter: tg.array[int], out: tg.array2d[float], tiles: int, steps: int, x: tg.array2d[float]
):
    ring0 = tg.tile_empty(shape=(3, 1, 8), dtype=float, storage="shared")
    full_ring = tg.mbarrier(1, stages=3)
    empty_ring = tg.mbarrier(4, stages=3)
    slot = tg.tile_empty(shape=(2, 4), dtype=int, storage="shared")
    full_q = tg.mbarrier(1, stages=2)
    empty_q = tg.mbarrier(5, stages=2)
    with tg.role("draw", warps=1):
        c_q = 0
        go = 1
        while go > 0:
            t = tg.tile_atomic_add(counter, tg.tile_ones(shape=(1,), dtype=int))[0]
            s_q = c_q % 2
            tg.mbarrier_wait(empty_q, s_q, (c_q // 2 & 1) ^ 1)
            slot[s_q] = tg.tile_full(shape=(4,), value=t, dtype=int)
            tg.mbarrier_arrive(full_q, s_q)
            c_q += 1
            if t >= tiles:
                go = 0
    with tg.role("load", warps=1):
        c_ring = 0
        c_q = 0
        more = 1
        while more > 0:
            q_q = c_q // 2
            s_q = c_q - q_q * 2
            p_q = q_q % 2
            tg.mbarrier_wait(full_q, s_q, p_q)
            t = slot[s_q][0]
            tg.mbarrier_arrive(empty_q, s_q)
            c_q += 1
            if t >= tiles:
                more = 0
            else:
                for q in range(steps):
                    s_ring = c_ring % 3
                    tg.mbarrier_wait(empty_ring, s_ring, (c_ring // 3 % 2) ^ 1)
                    tg.mbarrier_expect_bytes(full_ring, s_ring, 32)
                    tg.tile_load_async(
                        x, ring0[s_ring], offset=(t * steps + q, 0), barrier=full_ring, stage=s_ring
                    )
                    c_ring = c_ring + 1
    with tg.role("use", warps=4):
        s_ring, p_ring = 0, 0
        c_q = 0
        more = 1
        while more > 0:
            s_q = c_q % 2
            tg.mbarrier_wait(full_q, s_q, c_q // 2 % 2)
            t = slot[s_q][0]
            tg.mbarrier_arrive(empty_q, s_q)
            c_q = c_q + 1
            if t >= tiles:
                more = 0
            else:
                for q in range(steps):
                    tg.mbarrier_wait(full_ring, s_ring, p_ring)
                    tg.tile_store(out, ring0[s_ring] * 2.0, offset=(t * steps + q, 0))
                    tg.fence_async()
                    tg.mbarrier_arrive(empty_ring, s_ring)
                    w_ring = s_ring == 2
                    s_ring = 0 if w_ring else s_ring + 1
                    p_ring = p_ring ^ 1 if w_ring else p_ring
