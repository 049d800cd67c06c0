"""A role draws tiles from an atomic counter and sends them by a pipe; the others end at the first tile that does
not exist."""

import tegula as tg


@tg.kernel
def dynamic_pipe(
    counter: tg.array[int], out: tg.array2d[float], tiles: int, steps: int, x: tg.array2d[float]
):
    ring0 = tg.tile_empty(shape=(1, 1, 8), dtype=float, storage="shared")
    full_ring = tg.mbarrier(1, stages=1)
    empty_ring = tg.mbarrier(4, stages=1)
    sched = tg.tile_pipe(shape=(1,), dtype=int, stages=1)
    with tg.role("draw", warps=1):
        go = 1
        while go > 0:
            t = tg.tile_atomic_add(counter, tg.tile_ones(shape=(1,), dtype=int))
            tg.tile_pipe_push(sched, t)
            if t[0] >= tiles:
                go = 0
    with tg.role("load", warps=1):
        c_ring = 0
        while True:
            t = tg.tile_pipe_pop(sched)[0]
            if t >= tiles:
                break
            for q in range(steps):
                s_ring = c_ring % 1
                tg.mbarrier_wait(empty_ring, s_ring, (c_ring // 1 & 1) ^ 1)
                tg.mbarrier_expect_bytes(full_ring, s_ring, 32)
                tg.tile_load_async(
                    x, ring0[s_ring], offset=(t * steps + q, 0), barrier=full_ring, stage=s_ring
                )
                c_ring += 1
    with tg.role("use", warp_groups=1):
        s_ring = 0
        p_ring = 0
        while True:
            t = tg.tile_pipe_pop(sched)[0]
            if t >= tiles:
                break
            for q in range(steps):
                tg.mbarrier_wait(full_ring, s_ring, p_ring)
                tg.tile_store(out, ring0[s_ring] * 2.0, offset=(t * steps + q, 0))
                tg.fence_async()
                tg.mbarrier_arrive(empty_ring, s_ring)
                s_ring = (s_ring + 1) % 1
                if s_ring == 0:
                    p_ring = 1 - p_ring
