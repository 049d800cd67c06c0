"""Waits that pass over items: all items before one that is complete are complete, except at barriers of copies. Each
wrong variant passes over items whose completion is not known."""

from __future__ import annotations

import pytest
from equivalent_rewrites import kernel
from proofs import AHEAD, LOAD, outcome
from schedules import lowered

DRAIN = f"""\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    assert n >= 0
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
{LOAD}\
        if n > 0:
            tg.mbarrier_wait(empty, (n - 1) % S, (n - 1) // S)
    with tg.role("use", warp_groups=1):
        for k in range(n):
            s = k % S
            tg.mbarrier_wait(full, s, k // S)
            tg.tile_store(out, ring[s] * 2.0, offset=(k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)
"""
LAST = "        if n > 0:\n            tg.mbarrier_wait(empty, (n - 1) % S, (n - 1) // S)\n"
ALL = "        for k in range(max(0, n - S), n):\n            tg.mbarrier_wait(empty, k % S, k // S)\n"
PAIRS = """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(4, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=4), tg.mbarrier(1, stages=4)
    with tg.role("fill", warps=1):
        for j in range(n):
            a, b = 2 * j, 2 * j + 1
            tg.mbarrier_wait(empty, b % 4, b // 4 + 1)
            ring[a % 4] = tg.tile_load(x, shape=(1, N), offset=(a, 0)) * 3.0
            tg.mbarrier_arrive(full, a % 4)
            ring[b % 4] = tg.tile_load(x, shape=(1, N), offset=(b, 0)) * 3.0
            tg.mbarrier_arrive(full, b % 4)
    with tg.role("use", warps=1):
        for j in range(n):
            a, b = 2 * j, 2 * j + 1
            tg.mbarrier_wait(full, b % 4, b // 4)
            tg.tile_store(out, ring[a % 4] + ring[b % 4], offset=(j, 0))
            tg.mbarrier_arrive(empty, a % 4)
            tg.mbarrier_arrive(empty, b % 4)
"""
RIGHT = {"last": DRAIN, "all": DRAIN.replace(LAST, ALL), "pairs": PAIRS, "ahead": AHEAD}
MUTATED = {
    "more items ahead than stages": ("ahead", "d <= S", "d <= S + 1"),
    "any number of items ahead": ("ahead", "    assert d <= S\n", ""),
    "the first wait is for the phase before": (
        "ahead",
        "(empty, k % S, k // S + 1)",
        "(empty, k % S, k // S)",
    ),
    "one item is left out": ("ahead", "range(d, n)", "range(d + 1, n)"),
    "the items ahead are loaded again": ("ahead", "range(d, n)", "range(0, n)"),
    "a full stage is not awaited at first": (
        "ahead",
        "            tg.mbarrier_wait(full, k % S, k // S)\n",
        "            if k >= d:\n                tg.mbarrier_wait(full, k % S, k // S)\n",
    ),
    "the phase after the last one": ("last", "(n - 1) // S)", "(n - 1) // S + 1)"),
    "the item after the last one": ("last", "empty, (n - 1) % S, (n - 1) // S)", "empty, n % S, n // S)"),
    "an item too many": ("all", "max(0, n - S), n)", "max(0, n - S), n + 1)"),
    "another phase": ("all", "k // S)\n    with", "k // S + 1)\n    with"),
    "the first of two full stages": ("pairs", "(full, b % 4, b // 4)", "(full, a % 4, a // 4)"),
    "every second phase": (
        "pairs",
        "            tg.mbarrier_wait(empty, b % 4, b // 4 + 1)\n",
        "            if b // 4 % 2 == 0:\n                tg.mbarrier_wait(empty, b % 4, b // 4 + 1)\n",
    ),
    "a read after the second stage is given back": (
        "pairs",
        "            tg.mbarrier_arrive(empty, a % 4)\n            tg.mbarrier_arrive(empty, b % 4)\n",
        "            tg.mbarrier_arrive(empty, a % 4)\n            tg.mbarrier_arrive(empty, b % 4)\n"
        "            tg.tile_store(out, ring[a % 4] * 2.0, offset=(j, 0))\n",
    ),
    "copies of which only the second one is awaited": (
        "pairs",
        "            ring[a % 4] = tg.tile_load(x, shape=(1, N), offset=(a, 0)) * 3.0\n"
        "            tg.mbarrier_arrive(full, a % 4)\n",
        "            tg.mbarrier_expect_bytes(full, a % 4, N * 4)\n"
        "            tg.tile_load_async(x, ring[a % 4], (a, 0), full, a % 4)\n",
        "            ring[b % 4] = tg.tile_load(x, shape=(1, N), offset=(b, 0)) * 3.0\n"
        "            tg.mbarrier_arrive(full, b % 4)\n",
        "            tg.mbarrier_expect_bytes(full, b % 4, N * 4)\n"
        "            tg.tile_load_async(x, ring[b % 4], (b, 0), full, b % 4)\n",
        "            tg.mbarrier_arrive(empty, a % 4)\n",
        "            tg.fence_async()\n            tg.mbarrier_arrive(empty, a % 4)\n",
    ),
}


@pytest.mark.parametrize("stages", [1, 4])
@pytest.mark.parametrize("name", RIGHT)
def test_waits_may_pass_over_items(name: str, stages: int) -> None:
    assert outcome(lowered(kernel(RIGHT[name], None, stages))) == "proved"


@pytest.mark.parametrize("name", MUTATED)
def test_faulty_variants_are_not_proved(name: str) -> None:
    original, *edits = MUTATED[name]
    text = RIGHT[original]
    for old, new in zip(edits[::2], edits[1::2], strict=True):
        assert old in text
        text = text.replace(old, new)
    assert outcome(lowered(kernel(text, None, 3))) != "proved"
