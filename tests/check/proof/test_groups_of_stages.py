"""Rings whose stages barriers hand over in groups: an item of a barrier stands for several items of the ring."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from equivalent_rewrites import kernel
from proofs import element_at, outcome, paths_of, rejected
from schedules import lowered

from tegula.check.proof import prove

FULL_STAGES = """def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(2 * K, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=2 * K), tg.mbarrier(4, stages=2)
    with tg.ws(0):
        if tg.elect():
            for i in range(n):
                g = i % 2
                tg.mbarrier_wait(empty, g, i // 2 + 1)
                for j in range(K):
                    s = g * K + j
                    tg.mbarrier_expect_bytes(full, s, N * 4)
                    tg.tile_load_async(x, ring[s], (i * K + j, 0), full, s)
    with tg.ws(1):
        for i in range(n):
            g = i % 2
            for j in range(K):
                s = g * K + j
                tg.mbarrier_wait(full, s, i // 2)
                tg.tile_store(out, ring[s] * 2.0, offset=(i * K + j, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, g)
"""
FULL_GROUPS = """def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(2 * K, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=2), tg.mbarrier(4, stages=2)
    with tg.ws(0):
        if tg.elect():
            for i in range(n):
                g = i % 2
                tg.mbarrier_wait(empty, g, i // 2 + 1)
                tg.mbarrier_expect_bytes(full, g, K * N * 4)
                for j in range(K):
                    tg.tile_load_async(x, ring[g * K + j], (i * K + j, 0), full, g)
    with tg.ws(1):
        for i in range(n):
            g = i % 2
            tg.mbarrier_wait(full, g, i // 2)
            for j in range(K):
                tg.tile_store(out, ring[g * K + j] * 2.0, offset=(i * K + j, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, g)
"""
RIGHT = {"full stages": FULL_STAGES, "full groups": FULL_GROUPS}
WRONG = {
    "a group is released before its last stage is read": (
        "full stages",
        "                tg.tile_store(out, ring[s] * 2.0, offset=(i * K + j, 0))\n"
        "            tg.fence_async()\n            tg.mbarrier_arrive(empty, g)\n",
        "                if j == K - 1:\n                    tg.fence_async()\n"
        "                    tg.mbarrier_arrive(empty, g)\n"
        "                tg.tile_store(out, ring[s] * 2.0, offset=(i * K + j, 0))\n",
    ),
    "a stage of the next group": ("full stages", "ring[s] * 2.0", "ring[(s + K) % (2 * K)] * 2.0"),
    "the next stage": ("full stages", "ring[s] * 2.0", "ring[(s + 1) % (2 * K)] * 2.0"),
    "no wait for the group": (
        "full stages",
        "                tg.mbarrier_wait(empty, g, i // 2 + 1)\n",
        "",
    ),
    "one stage too few": (
        "full stages",
        "shape=(2 * K, 1, N)",
        "shape=(2 * K - 1, 1, N)",
        "ring[s], (i",
        "ring[s % (2 * K - 1)], (i",
        "ring[s] * 2.0",
        "ring[s % (2 * K - 1)] * 2.0",
    ),
    "two copies into one stage of a group": (
        "full groups",
        "ring[g * K + j], (i",
        "ring[g * K + j // 2], (i",
    ),
    "a copy into the other group": (
        "full groups",
        "ring[g * K + j], (i",
        "ring[(g * K + j + 1) % (2 * K)], (i",
    ),
    "a read of the other group": (
        "full groups",
        "ring[g * K + j] * 2.0",
        "ring[(g * K + j + K) % (2 * K)] * 2.0",
    ),
    "bytes of one stage too few": ("full groups", "K * N * 4", "(K - 1) * N * 4"),
    "a single group": (
        "full groups",
        "shape=(2 * K, 1, N)",
        "shape=(K, 1, N)",
        "ring[g * K + j], (i",
        "ring[j], (i",
        "ring[g * K + j] * 2.0",
        "ring[j] * 2.0",
    ),
}


def low(text: str, group: int) -> Any:
    return lowered(kernel(text.replace("K", str(group))))


@pytest.mark.parametrize("group", [2, 3])
@pytest.mark.parametrize("name", RIGHT)
def test_groups_of_stages_are_proved(name: str, group: int) -> None:
    assert outcome(low(RIGHT[name], group)) == "proved"


@pytest.mark.parametrize("name", WRONG)
def test_wrong_groups_of_stages_are_not_proved(name: str) -> None:
    which, *pairs = WRONG[name]
    text = RIGHT[which]
    for old, new in zip(pairs[::2], pairs[1::2], strict=True):
        assert old in text
        text = text.replace(old, new)
    assert outcome(low(text, 4 if "one stage" in name else 2)) != "proved"


def test_other_lengths_of_groups_are_rejected() -> None:
    result, compilation = low(FULL_STAGES, 3)
    certificate = json.loads(json.dumps(prove(result, compilation)))
    assert certificate["units"] and not rejected(result, compilation, certificate)
    groups = [path for path in paths_of(certificate["rings"]) if len(path) == 4 and path[-1] == 8]
    changed = [("rings", *path) for path in groups] + [
        ("units", k, 1) for k in range(len(certificate["units"]))
    ]
    for path in changed:
        for n in (0, -1, 0.5, 1, 2, 4, 6):
            other = copy.deepcopy(certificate)
            at = element_at(other, path[:-1])
            if at[path[-1]] != n:
                at[path[-1]] = n
                assert rejected(result, compilation, other), (path, n)
