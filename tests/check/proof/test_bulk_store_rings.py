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
RIGHT = {"counter": COUNTER, "late waits": LATE_WAITS, "parts": PARTS, "after a ring": AFTER_A_RING}
WRONG = {
    "one group too many in flight": ("counter", "pending=S - 1", "pending=S"),
    "the counter returns one stage early": ("counter", "if s == S:", "if s == S - 1:"),
    "no fence": ("counter", "            tg.fence_async()\n", ""),
    "stores are in flight at the end": ("counter", "        tg.store_wait(read=True)\n", ""),
    "the first wait is one iteration late": ("late waits", "if k >= S:", "if k >= S + 1:"),
    "a part too many in flight": ("parts", "pending=1", "pending=2"),
    "one buffer of two": ("parts", "rows[j % 2]", "rows[0]"),
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
