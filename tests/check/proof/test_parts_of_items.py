"""Roles that arrive more than once for an item of a barrier: with one warp, which announces bytes, and with all."""

from __future__ import annotations

import copy
import json

import pytest
from equivalent_rewrites import kernel
from proofs import outcome, rejected
from schedules import lowered

from tegula.check.proof import prove

TIED = """def tied(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(5, stages=S), tg.mbarrier(2, stages=S)
    with tg.role("load", warps=4):
        for i in range(n):
            tg.mbarrier_wait(empty, i % S, i // S + 1)
            tg.mbarrier_expect_bytes(full, i % S, N * 4)
            tg.mbarrier_arrive(full, i % S)
            tg.tile_load_async(x, ring[i % S], (i, 0), full, i % S)
    with tg.role("use", warps=2):
        for i in range(n):
            tg.mbarrier_wait(full, i % S, i // S)
            tg.tile_store(out, ring[i % S], offset=(i, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, i % S)
"""
TWICE = """def twice(x: tg.array2d[float], y: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    more = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(2, stages=S), tg.mbarrier(2, stages=S)
    with tg.role("load", warps=1):
        for i in range(n):
            tg.mbarrier_wait(empty, i % S, i // S + 1)
            tg.mbarrier_expect_bytes(full, i % S, N * 4)
            tg.tile_load_async(x, ring[i % S], (i, 0), full, i % S)
            tg.mbarrier_expect_bytes(full, i % S, N * 4)
            tg.tile_load_async(y, more[i % S], (i, 0), full, i % S)
    with tg.role("use", warps=2):
        for i in range(n):
            tg.mbarrier_wait(full, i % S, i // S)
            tg.tile_store(out, ring[i % S] + more[i % S], offset=(i, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, i % S)
"""
WAIT = "            tg.mbarrier_wait(empty, i % S, i // S + 1)\n"
ANNOUNCE = "            tg.mbarrier_expect_bytes(full, i % S, N * 4)\n"
ARRIVE = "            tg.mbarrier_arrive(full, i % S)\n"
LOAD = "            tg.tile_load_async(x, ring[i % S], (i, 0), full, i % S)\n"
SECOND = LOAD.replace("x, ring", "y, more")
USE = "            tg.tile_store(out, ring[i % S], offset=(i, 0))\n"
RIGHT = {
    "tied": (TIED, "", ""),
    "the copy is started between the arrivals": (TIED, ARRIVE + LOAD, LOAD + ARRIVE),
    "all warps arrive first": (TIED, ANNOUNCE + ARRIVE, ARRIVE + ANNOUNCE),
    "twice": (TWICE, "", ""),
}
WRONG = {
    "fewer arrivals are counted": (TIED, "mbarrier(5, ", "mbarrier(4, "),
    "more arrivals are counted": (TIED, "mbarrier(5, ", "mbarrier(6, "),
    "all warps arrive in some iterations": (TIED, ARRIVE, f"            if i % 2 == 0:\n    {ARRIVE}"),
    "all warps arrive a second time": (TIED, ARRIVE, ARRIVE + ARRIVE),
    "nothing is announced": (TIED, ANNOUNCE, ""),
    "all warps arrive before the stage is free": (TIED, WAIT + ANNOUNCE + ARRIVE, ARRIVE + WAIT + ANNOUNCE),
    "one warp arrives before the stage is free": (TIED, WAIT + ANNOUNCE, ANNOUNCE + WAIT),
    "one warp waits, and all arrive": (TIED, WAIT, f"            if tg.elect():\n    {WAIT}"),
    "all warps arrive for the next item": (TIED, ARRIVE, ARRIVE.replace("full, i % S", "full, (i + 1) % S")),
    "a copy is started before it is announced": (TIED, WAIT + ANNOUNCE, LOAD + WAIT + ANNOUNCE),
    "the last arrival is left out": (TIED, ARRIVE, f"            if i + 1 < n:\n    {ARRIVE}"),
    "a second announcement is left out": (TWICE, ANNOUNCE + SECOND, SECOND),
    "a second copy is left out": (TWICE, SECOND, ""),
    "a stage is given back before it is read": (
        TIED,
        USE + "            tg.fence_async()\n            tg.mbarrier_arrive(empty, i % S)\n",
        "            tg.mbarrier_arrive(empty, i % S)\n" + USE,
    ),
}  # fmt: skip


def changed(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("name", RIGHT)
def test_items_with_several_arrivals_of_a_role_are_proved(name: str, stages: int) -> None:
    assert outcome(lowered(kernel(changed(*RIGHT[name]), None, stages))) == "proved"


@pytest.mark.parametrize("name", WRONG)
def test_items_with_other_numbers_of_arrivals_are_not_proved(name: str) -> None:
    assert outcome(lowered(kernel(changed(*WRONG[name]), None, 2))) != "proved"


def test_certificates_with_other_numbers_of_arrivals_are_rejected() -> None:
    for text in (TIED, TWICE):
        result, compilation = lowered(kernel(text))
        certificate = json.loads(json.dumps(prove(result, compilation)))
        assert certificate["parts"] and not rejected(result, compilation, certificate)
        ((b, r, n, m),) = certificate["parts"]
        others = [(n + 1, m), (n, m + 1), (n + 4, m - 1), (0, 2), (-1, 2)]
        for parts in ([], *([[b, r, *other]] for other in others)):
            forged = copy.deepcopy(certificate)
            forged["parts"] = parts
            assert rejected(result, compilation, forged)


SYNCHRONISED = """def synchronised(x: tg.array2d[float], out: tg.array2d[float], n: int):
    own = tg.named_barrier(COUNT)
    rows = tg.tile_pipe(shape=(1, N), dtype=float, stages=S)
    with tg.role("load", warps=1):
        for i in range(n):
            tg.tile_pipe_load(rows, x, offset=(i, 0))
    with tg.role("use", warps=4):
        for i in range(n):
            tg.tile_store(out, tg.tile_pipe_pop(rows), offset=(i, 0))
            SYNC
"""


def test_warps_that_wait_at_a_named_barrier_do_not_arrive_there_again_before_it_ends() -> None:
    sync = "tg.named_barrier_sync(own)"
    once = SYNCHRONISED.replace("COUNT", "4").replace("SYNC", sync)
    twice = SYNCHRONISED.replace("COUNT", "8").replace("SYNC", f"{sync}; {sync}")
    assert outcome(lowered(kernel(twice))) != "proved"
    result, compilation = lowered(kernel(once))
    certificate = json.loads(json.dumps(prove(result, compilation)))
    assert not rejected(result, compilation, certificate)
    for parts in ((0, 1), (0, 2)):
        assert rejected(result, compilation, certificate | {"parts": [[0, 1, *parts]]})
