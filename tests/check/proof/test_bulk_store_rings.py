"""Buffers from which bulk stores are in flight while the next stages are stored, and wrong variants of them."""

from __future__ import annotations

import pytest
from equivalent_rewrites import kernel
from proofs import outcome
from schedules import lowered

COUNTER = """def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    rows = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    with tg.ws(0):
        s = 0
        for k in range(n):
            tg.store_wait(pending=S - 1, read=True)
            rows[s] = tg.tile_load(x, shape=(1, N), offset=(k, 0)) * 2.0
            tg.fence_async()
            tg.tile_store_async(out, rows[s], (k, 0))
            tg.store_commit()
            s += 1
            if s == S:
                s = 0
        tg.store_wait(read=True)
"""
LATE_WAITS = """def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    rows = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    with tg.ws(0):
        for k in range(n):
            if k >= S:
                tg.store_wait(pending=S - 1, read=True)
            rows[k % S] = tg.tile_load(x, shape=(1, N), offset=(k, 0)) * 2.0
            tg.fence_async()
            tg.tile_store_async(out, rows[k % S], (k, 0))
            tg.store_commit()
        tg.store_wait()
"""
PARTS = """def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    rows = tg.tile_empty(shape=(2, 1, N), dtype=float, storage="shared")
    with tg.ws(0):
        for k in range(n):
            for j in range(4):
                tg.store_wait(pending=1, read=True)
                rows[j % 2] = tg.tile_load(x, shape=(1, N), offset=(4 * k + j, 0)) * 2.0
                tg.fence_async()
                tg.tile_store_async(out, rows[j % 2], (4 * k + j, 0))
                tg.store_commit()
        tg.store_wait(read=True)
"""
AFTER_A_RING = """def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int, m: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    rows = tg.tile_empty(shape=(2, 1, N), dtype=float, storage="shared")
    with tg.ws(0):
        if tg.elect():
            it = 0
            for i in range(n):
                for k in range(m):
                    s = it % S
                    tg.mbarrier_wait(empty, s, it // S + 1)
                    tg.mbarrier_expect_bytes(full, s, N * 4)
                    tg.tile_load_async(x, ring[s], (i * m + k, 0), full, s)
                    it += 1
    with tg.ws(1):
        it = 0
        for i in range(n):
            total = tg.tile_zeros(shape=(1, N))
            for k in range(m):
                s = it % S
                tg.mbarrier_wait(full, s, it // S)
                total += ring[s]
                tg.fence_async()
                tg.mbarrier_arrive(empty, s)
                it += 1
            for j in range(2):
                tg.store_wait(pending=1, read=True)
                rows[j] = total * 2.0
                tg.fence_async()
                tg.tile_store_async(out, rows[j], (i * 2 + j, 0))
                tg.store_commit()
        tg.store_wait(read=True)
"""
TURNS = """def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int, tiles: int, blocks: int):
    i = tg.tid()
    assert blocks > 0
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    rows = tg.tile_empty(shape=(2, 1, N), dtype=float, storage="shared")
    with tg.ws(0):
        s = 0
        phase = 1
        for t in range(i, tiles, blocks):
            for k in range(n):
                if tg.elect():
                    tg.mbarrier_wait(empty, s, phase)
                    tg.mbarrier_expect_bytes(full, s, N * 4)
                    tg.tile_load_async(x, ring[s], (t, k * N), full, s)
                s += 1
                if s == S:
                    s = 0
                    phase = phase ^ 1
    with tg.ws(1):
        it = 0
        turn = 0
        for t in range(i, tiles, blocks):
            total = tg.tile_zeros(shape=(1, N))
            for k in range(n):
                tg.mbarrier_wait(full, it % S, it // S)
                total += ring[it % S]
                tg.fence_async()
                tg.mbarrier_arrive(empty, it % S)
                it += 1
            tg.store_wait(pending=1, read=True)
            rows[turn] = total * 2.0
            tg.fence_async()
            tg.tile_store_async(out, rows[turn], (t, 0))
            tg.store_commit()
            turn = 1 - turn
        tg.store_wait(read=True)
"""
ALONE = """def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full = tg.mbarrier(1, stages=S)
    with tg.role("all", warps=1):
        for k in range(tg.min(S - 1, n)):
            tg.mbarrier_expect_bytes(full, k % S, N * 4)
            tg.tile_load_async(x, ring[k % S], (k, 0), full, k % S)
        for k in range(n):
            tg.mbarrier_wait(full, k % S, k // S)
            tg.tile_store_async(out, ring[k % S], (k, 0))
            tg.store_commit()
            if k + S - 1 < n:
                tg.store_wait(pending=1, read=True)
                s = (k + S - 1) % S
                tg.mbarrier_expect_bytes(full, s, N * 4)
                tg.tile_load_async(x, ring[s], (k + S - 1, 0), full, s)
        tg.store_wait(read=True)
"""
ELECTED = """def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    rows = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    all_warps = tg.named_barrier(warps=4)
    with tg.ws(0):
        for k in range(n):
            if tg.elect():
                tg.store_wait(pending=S - 1, read=True)
            tg.named_barrier_sync(all_warps)
            rows[k % S] = tg.tile_load(x, shape=(1, N), offset=(k, 0)) * 2.0
            tg.fence_async()
            tg.named_barrier_sync(all_warps)
            if tg.elect():
                tg.tile_store_async(out, rows[k % S], (k, 0))
                tg.store_commit()
        if tg.elect():
            tg.store_wait(read=True)
"""
DRAINED = """def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    assert n >= 0
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(1, stages=S)
    with tg.role("fetch", warps=1):
        for k in range(n):
            tg.mbarrier_wait(empty, k % S, k // S + 1)
            tg.mbarrier_expect_bytes(full, k % S, N * 4)
            tg.tile_load_async(x, ring[k % S], (k, 0), full, k % S)
        for k in range(n, n + S):
            tg.mbarrier_wait(empty, k % S, k // S + 1)
    with tg.role("write", warps=1):
        for k in range(n):
            tg.mbarrier_wait(full, k % S, k // S)
            tg.tile_store_async(out, ring[k % S], (k, 0))
            tg.store_commit()
            tg.store_wait(pending=S - 1, read=True)
            if k >= S - 1:
                tg.mbarrier_arrive(empty, (k - (S - 1)) % S)
        tg.store_wait(read=True)
        for k in range(tg.max(n - (S - 1), 0), n):
            tg.mbarrier_arrive(empty, k % S)
"""
RIGHT = {
    "counter": COUNTER,
    "late waits": LATE_WAITS,
    "parts": PARTS,
    "after a ring": AFTER_A_RING,
    "turns": TURNS,
    "alone": ALONE,
    "elected": ELECTED,
    "drained": DRAINED,
}
WRONG = {
    "one group too many in flight": ("counter", "pending=S - 1", "pending=S"),
    "the counter returns one stage early": ("counter", "if s == S:", "if s == S - 1:"),
    "no fence": ("counter", "            tg.fence_async()\n", ""),
    "stores are in flight at the end": ("counter", "        tg.store_wait(read=True)\n", ""),
    "the first wait is one iteration late": ("late waits", "if k >= S:", "if k >= S + 1:"),
    "a part too many in flight": ("parts", "pending=1", "pending=2"),
    "one buffer of two": ("parts", "rows[j % 2]", "rows[0]"),
    "the turn does not change": ("turns", "turn = 1 - turn", "turn = 1 - (1 - turn)"),
    "a copy overwrites what a store still reads": ("alone", "pending=1", "pending=2"),
    "a copy into the stage that is stored": ("alone", "s = (k + S - 1) % S", "s = (k + S) % S"),
    "one elected group too many in flight": ("elected", "pending=S - 1", "pending=S"),
    "stages are given back before the stores have read them": (
        "drained",
        "        tg.store_wait(read=True)\n        for k",
        "        for k",
    ),
    "one stage is not given back": (
        "drained",
        "range(tg.max(n - (S - 1), 0), n)",
        "range(tg.max(n - (S - 2), 0), n)",
    ),
    "the next tile overwrites": ("after a ring", "pending=1", "pending=2"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_stages_of_bulk_stores_are_proved(name: str) -> None:
    assert outcome(lowered(kernel(RIGHT[name]))) == "proved"


@pytest.mark.parametrize("name", WRONG)
def test_wrong_stages_of_bulk_stores_are_not_proved(name: str) -> None:
    which, old, new = WRONG[name]
    assert old in RIGHT[which]
    assert outcome(lowered(kernel(RIGHT[which].replace(old, new)))) != "proved"
