"""Loops over full rings, with a loop for the remaining items, against loops over all items."""

from __future__ import annotations

import textwrap

import pytest
from equivalent_rewrites import kernel
from proofs import outcome
from schedules import lowered

from support.campaigns import sampled

KERNEL = """def rings(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.role("fetch", warps=1):
FETCH
    with tg.role("store", warps=4):
STORE
"""
LOAD = """tg.mbarrier_wait(empty, STAGE, (PARITY) ^ 1)
tg.mbarrier_expect_bytes(full, STAGE, N * 4)
tg.tile_load_async(x, ring[STAGE], (0, 0), full, STAGE)"""
STORE = """tg.mbarrier_wait(full, STAGE, PARITY)
tg.tile_store(out, ring[STAGE], offset=(0, 0))
tg.fence_async()
tg.mbarrier_arrive(empty, STAGE)"""
LOOPS = {
    "flat": [("for k in range(n):", "k % S", "k // S & 1")],
    "full rings": [
        ("for q in range(n // S):\n    for s in tg.unrolled(S):", "s", "q & 1"),
        ("for s in range(n % S):", "s", "n // S & 1"),
    ],
    "full rings in a loop": [
        ("for q in range(n // S):\n    for s in range(S):", "s", "q % 2"),
        ("for s in range(n % S):", "s", "n // S % 2"),
    ],
}


def looped(name: str, item: str) -> str:
    """The loops of a role with their items."""
    text = ""
    for head, stage, parity in LOOPS[name]:
        body = item.replace("STAGE", stage).replace("PARITY", parity)
        text += head + "\n" + textwrap.indent(body, " " * 4 * (head.count("\n") + 1)) + "\n"
    return textwrap.indent(text, " " * 8)


def rings(fetch: str, store: str) -> str:
    return KERNEL.replace("FETCH", looped(fetch, LOAD)).replace("STORE", looped(store, STORE))


@sampled(
    4,
    ("fetch", "store", "stages"),
    [
        ("flat", "full rings", 4),
        ("full rings", "flat", 3),
        ("flat", "full rings in a loop", 7),
        ("full rings", "full rings in a loop", 2),
        ("flat", "full rings", 6),
        ("full rings in a loop", "flat", 5),
        ("full rings", "flat", 8),
        ("full rings in a loop", "full rings in a loop", 4),
    ],
)
def test_full_rings_and_the_remaining_items_are_proved(fetch: str, store: str, stages: int) -> None:
    assert outcome(lowered(kernel(rings(fetch, store), None, stages))) == "proved"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("range(n % S)", "range(n % S + 1)"),
        ("range(n % S)", "range((n + 1) % S)"),
        ("wait(full, s, n // S & 1)", "wait(full, s, (n + 1) // S & 1)"),
    ],
)
def test_faulty_loops_for_the_remaining_items_are_not_proved(old: str, new: str) -> None:
    text = rings("flat", "full rings")
    assert old in text
    assert outcome(lowered(kernel(text.replace(old, new), None, 4))) != "proved"
