"""Rings that roles hand on: waits and arrivals of other roles, not a barrier of its own, order an engine after earlier
accesses of a stage. Each wrong variant breaks the order of two engines that share no barrier."""

from __future__ import annotations

import pytest
from equivalent_rewrites import kernel
from proofs import CIRCLE, LOAD, outcome
from schedules import lowered

LAST_READER = f"""\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    first, second = tg.mbarrier(2, stages=S), tg.mbarrier(2, stages=S)
{LOAD}\
    with tg.role("a", warps=2):
        for k in range(n):
            s = k % S
            tg.mbarrier_wait(full, s, k // S)
            tg.tile_store(out, ring[s] * 2.0, offset=(3 * k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(first, s)
    with tg.role("b", warps=2):
        for k in range(n):
            s = k % S
            tg.mbarrier_wait(first, s, k // S)
            tg.tile_store(out, ring[s] * 2.0, offset=(3 * k + 1, 0))
            tg.fence_async()
            tg.mbarrier_arrive(second, s)
    with tg.role("c", warp_groups=1):
        for k in range(n):
            s = k % S
            tg.mbarrier_wait(full, s, k // S)
            tg.tile_store(out, ring[s] * 2.0, offset=(3 * k + 2, 0))
            tg.fence_async()
            tg.mbarrier_wait(second, s, k // S)
            tg.mbarrier_arrive(empty, s)
"""
LATE = CIRCLE.replace(
    "            tg.store_wait(read=True)\n            tg.mbarrier_arrive(empty, s)\n",
    "            tg.store_wait(pending=1, read=True)\n            if k > 0:\n"
    "                tg.mbarrier_arrive(empty, (k - 1) % S)\n"
    "        tg.store_wait(read=True)\n",
)
NAMED = """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    tile = tg.tile_empty(shape=(1, N), dtype=float, storage="shared")
    one, two, three = tg.named_barrier(2), tg.named_barrier(2), tg.named_barrier(2)
    with tg.role("a", warps=1):
        for k in range(n):
            tile[:, :] = tg.tile_load(x, shape=(1, N), offset=(k, 0)) * 3.0
            tg.named_barrier_arrive(one)
            tg.named_barrier_sync(three)
    with tg.role("b", warps=1):
        for k in range(n):
            tg.named_barrier_sync(one)
            tile[:, :] = tile * 2.0
            tg.named_barrier_arrive(two)
    with tg.role("c", warps=1):
        for k in range(n):
            tg.named_barrier_sync(two)
            tg.tile_store(out, tile, offset=(k, 0))
            tg.named_barrier_arrive(three)
"""
RIGHT = {"circle": CIRCLE, "last reader": LAST_READER, "late": LATE, "named": NAMED}
WAIT_FULL = "            tg.mbarrier_wait(full, s, k // S)\n"
WAIT_CHANGED = "            tg.mbarrier_wait(changed, s, k // S)\n"
GIVE_BACK = "            tg.mbarrier_arrive(empty, s)\n"
MUTATED = {
    "changed before it is full": ("circle", WAIT_FULL, ""),
    "stored before it is changed": ("circle", WAIT_CHANGED, WAIT_FULL),
    "given back before it is changed": (
        "circle",
        GIVE_BACK,
        "",
        WAIT_CHANGED,
        GIVE_BACK + WAIT_CHANGED,
    ),
    "handed on before it is changed": (
        "circle",
        "            tg.fence_async()\n            tg.mbarrier_arrive(changed, s)\n",
        "            tg.fence_async()\n",
        WAIT_FULL,
        WAIT_FULL + "            tg.mbarrier_arrive(changed, s)\n",
    ),
    "changed without a fence": ("circle", "            tg.fence_async()\n", ""),
    "given back while it is stored": ("circle", "            tg.store_wait(read=True)\n", ""),
    "a store waits for the item before": (
        "circle",
        WAIT_CHANGED,
        "            if k > 0:\n                tg.mbarrier_wait(changed, (k - 1) % S, (k - 1) // S)\n",
    ),
    "two stores in flight": ("late", "pending=1, read", "pending=2, read"),
    "given back one item early": ("late", "(empty, (k - 1) % S)", "(empty, s)"),
    "the stage of another item is changed": ("circle", "ring[s] * 3.0", "ring[(k + 1) % S] * 3.0"),
    "the last reader does not wait for the others": (
        "last reader",
        "            tg.mbarrier_wait(second, s, k // S)\n",
        "",
    ),
    "the last reader waits for the first one only": (
        "last reader",
        "            tg.mbarrier_wait(second, s, k // S)\n",
        "            tg.mbarrier_wait(first, s, k // S)\n",
    ),
    "the last reader waits for the item before": (
        "last reader",
        "            tg.mbarrier_wait(second, s, k // S)\n",
        "            if k > 0:\n                tg.mbarrier_wait(second, (k - 1) % S, (k - 1) // S)\n",
    ),
    "the second reader does not wait for the first one": (
        "last reader",
        "            tg.mbarrier_wait(first, s, k // S)\n",
        WAIT_FULL,
    ),
    "the second reader hands on before it reads": (
        "last reader",
        "            tg.tile_store(out, ring[s] * 2.0, offset=(3 * k + 1, 0))\n            tg.fence_async()\n"
        "            tg.mbarrier_arrive(second, s)\n",
        "            tg.mbarrier_arrive(second, s)\n"
        "            tg.tile_store(out, ring[s] * 2.0, offset=(3 * k + 1, 0))\n            tg.fence_async()\n",
    ),
    "the first reader does not fence": (
        "last reader",
        "            tg.fence_async()\n            tg.mbarrier_arrive(first, s)\n",
        "            tg.mbarrier_arrive(first, s)\n",
    ),
    "a named wait is left out": ("named", "            tg.named_barrier_sync(three)\n", ""),
    "the third role does not wait": (
        "named",
        "            tg.named_barrier_sync(two)\n            tg.tile_store(out, tile, offset=(k, 0))\n",
        "            tg.tile_store(out, tile, offset=(k, 0))\n            tg.named_barrier_sync(two)\n",
    ),
}


@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("name", RIGHT)
def test_rings_that_roles_hand_on_are_proved(name: str, stages: int) -> None:
    stages = stages if name != "late" else stages + 1
    assert outcome(lowered(kernel(RIGHT[name], None, stages))) == "proved"


@pytest.mark.parametrize("name", MUTATED)
def test_faulty_variants_are_not_proved(name: str) -> None:
    original, *edits = MUTATED[name]
    text = RIGHT[original]
    for old, new in zip(edits[::2], edits[1::2], strict=True):
        assert old in text
        text = text.replace(old, new)
    assert outcome(lowered(kernel(text, None, 3))) != "proved"
