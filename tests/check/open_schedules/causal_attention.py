"""Causal attention over tiles of a launch: rings for queries, keys and values with counters of different kinds."""

import tegula as tg


@tg.kernel
def causal_attention(
    q: tg.array2d[tg.bfloat16],
    kk: tg.array2d[tg.bfloat16],
    v: tg.array2d[tg.bfloat16],
    o: tg.array2d[float],
    tiles: int,
    blocks: int,
    keys: int,
):
    bid = tg.tid()
    assert blocks > 0
    rq0 = tg.tile_empty(shape=(2, 128, 64), dtype=tg.bfloat16, storage="shared")
    full_rq = tg.mbarrier(1, stages=2)
    empty_rq = tg.mbarrier(8, stages=2)
    rk0 = tg.tile_empty(shape=(3, 64, 64), dtype=tg.bfloat16, storage="shared")
    full_rk = tg.mbarrier(1, stages=3)
    empty_rk = tg.mbarrier(8, stages=3)
    rv0 = tg.tile_empty(shape=(2, 64, 64), dtype=tg.bfloat16, storage="shared")
    full_rv = tg.mbarrier(1, stages=2)
    empty_rv = tg.mbarrier(8, stages=2)
    with tg.ws(0):
        s_rq = 0
        p_rq = 0
        s_rk = 0
        p_rk = 1
        c_rv = 0
        for t in range(bid, tiles, blocks):
            first, last = 0, min(t + 1, keys)
            if tg.elect():
                tg.mbarrier_wait(empty_rq, s_rq, p_rq ^ 1)
                tg.mbarrier_expect_bytes(full_rq, s_rq, 16384)
                tg.tile_load_async(q, rq0[s_rq], offset=(t * 128, 0), barrier=full_rq, stage=s_rq)
            s_rq = (s_rq + 1) % 2
            if s_rq == 0:
                p_rq = 1 - p_rq
            for j in range(first, last):
                if tg.elect():
                    tg.mbarrier_wait(empty_rk, s_rk, p_rk)
                    tg.mbarrier_expect_bytes(full_rk, s_rk, 8192)
                    tg.tile_load_async(kk, rk0[s_rk], offset=(j * 64, 0), barrier=full_rk, stage=s_rk)
                s_rk += 1
                if s_rk == 3:
                    s_rk = 0
                    p_rk = p_rk ^ 1
                s_rv = c_rv % 2
                p_rv = c_rv // 2 & 1
                if tg.elect():
                    tg.mbarrier_wait(empty_rv, s_rv, p_rv ^ 1)
                    tg.mbarrier_expect_bytes(full_rv, s_rv, 8192)
                    tg.tile_load_async(v, rv0[s_rv], offset=(j * 64, 0), barrier=full_rv, stage=s_rv)
                c_rv += 1
    with tg.ws(1, 2):
        s_rq = 0
        p_rq = 0
        s_rk = 0
        p_rk = 0
        s_rv, p_rv = 0, 0
        for t in range(bid, tiles, blocks):
            first, last = 0, min(t + 1, keys)
            tg.mbarrier_wait(full_rq, s_rq, p_rq)
            acc = tg.tile_zeros(shape=(128, 64), dtype=tg.float32)
            if first < last:
                s = tg.tile_zeros(shape=(128, 64), dtype=tg.float32)
                tg.mbarrier_wait(full_rk, s_rk, p_rk)
                tg.tile_matmul(rq0[s_rq], tg.tile_transpose(rk0[s_rk]), s)
                tg.mbarrier_arrive(empty_rk, s_rk)
                s_rk += 1
                if s_rk == 3:
                    s_rk = 0
                    p_rk = p_rk ^ 1
                w = tg.tile_astype(s * 0.5, tg.bfloat16)
                for j in range(first + 1, last):
                    s = tg.tile_zeros(shape=(128, 64), dtype=tg.float32)
                    tg.mbarrier_wait(full_rk, s_rk, p_rk)
                    tg.tile_matmul(rq0[s_rq], tg.tile_transpose(rk0[s_rk]), s, wait=False)
                    tg.mbarrier_wait(full_rv, s_rv, p_rv)
                    tg.tile_matmul(w, rv0[s_rv], acc, wait=False)
                    tg.tile_matmul_wait(pending=1)
                    tg.mbarrier_arrive(empty_rk, s_rk)
                    s_rk += 1
                    if s_rk == 3:
                        s_rk = 0
                        p_rk = p_rk ^ 1
                    tg.tile_matmul_wait()
                    tg.mbarrier_arrive(empty_rv, s_rv)
                    w_rv = s_rv == 1
                    s_rv = 0 if w_rv else s_rv + 1
                    p_rv = p_rv ^ 1 if w_rv else p_rv
                    w = tg.tile_astype(s * 0.5, tg.bfloat16)
                tg.mbarrier_wait(full_rv, s_rv, p_rv)
                tg.tile_matmul(w, rv0[s_rv], acc)
                tg.mbarrier_arrive(empty_rv, s_rv)
                w_rv = s_rv == 1
                s_rv = 0 if w_rv else s_rv + 1
                p_rv = p_rv ^ 1 if w_rv else p_rv
            tg.mbarrier_arrive(empty_rq, s_rq)
            s_rq = (s_rq + 1) % 2
            if s_rq == 0:
                p_rq = 1 - p_rq
            tg.tile_store(o, acc, offset=(t * 128, 0))
