"""Counters from which roles compute stages and parities: cyclic ones, descending ones, and parities `1 - phase`."""

from __future__ import annotations

import pytest
from equivalent_rewrites import kernel
from proofs import outcome
from schedules import lowered

from support.campaigns import sampled

KERNEL = """def counted(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.role("fetch", warps=1):
        FIRST
        for k in range(n):
            tg.mbarrier_wait(empty, STAGE, 1 - (PARITY))
            tg.mbarrier_expect_bytes(full, STAGE, N * 4)
            tg.tile_load_async(x, ring[STAGE], (k, 0), full, STAGE)
            NEXT
    with tg.ws(1):
        FIRST
        for k in range(n):
            tg.mbarrier_wait(full, STAGE, PARITY)
            tg.tile_store(out, ring[STAGE], offset=(k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, STAGE)
            NEXT
"""
COUNTERS = {
    "stage and parity": ("s, p = 0, 0", "s", "p", "s, p = (s + 1) % S, 1 - p if s == S - 1 else p"),
    "stage and bool": ("s, p = 0, False", "s", "int(p)", "s, p = (s + 1) % S, not p if s == S - 1 else p"),
    "twice the stages": ("c = 0", "c % S", "c // S", "c = (c + 1) % (2 * S)"),
    "twice the stages, by a branch": ("c = 0", "c % S", "c // S", "c = 0 if c == 2 * S - 1 else c + 1"),
    "a multiple of twice the stages": ("c = 0", "c % S", "c // S", "c = (c + 1) % (6 * S)"),
    "the iterations until the last stage": (
        "s, p, left = 0, 0, S",
        "s",
        "p",
        "left -= 1\n            if left == 0:\n                s, left, p = 0, S, p ^ 1\n"
        "            else:\n                s += 1",
    ),
    "descending": (
        "s, p = S - 1, 0",
        "S - 1 - s",
        "p",
        "s, p = S - 1 if s == 0 else s - 1, 1 - p if s == 0 else p",
    ),
}
WRONG = {
    "the parity of another number of stages": ("twice the stages", "(2 * S)", "(2 * S + 1)"),
    "a cycle of half the length": ("twice the stages, by a branch", "2 * S - 1", "S - 1"),
    "an odd multiple of the stages": ("a multiple of twice the stages", "6 * S", "3 * S"),
    "too few iterations until the last stage": (
        "the iterations until the last stage",
        "left, p = 0, S",
        "left, p = 0, S - 1",
    ),
    "one stage is omitted": ("descending", "s == 0", "s == 1"),
    "a stage that is not in the ring": ("descending", "S - 1 if s", "S if s"),
    "the bool changes every time": ("stage and bool", "not p if s == S - 1 else p", "not p"),
    "the parity does not change": ("stage and parity", "1 - p if", "p if"),
}


USE = """\
            tg.mbarrier_wait(full, STAGE, PARITY)
            tg.tile_store(out, ring[STAGE], offset=(k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, STAGE)
            NEXT
"""
FETCH = """\
            tg.mbarrier_wait(empty, STAGE, 1 - (PARITY))
            tg.mbarrier_expect_bytes(full, STAGE, N * 4)
            tg.tile_load_async(x, ring[STAGE], (k, 0), full, STAGE)
            NEXT
"""


def indented(lines: str) -> str:
    return "".join(f"    {line}\n" for line in lines.splitlines())


SHAPES = {
    "two items in an iteration": KERNEL.replace(FETCH, FETCH * 2).replace(USE, USE * 2),
    "an item before an inner loop": KERNEL.replace(
        FETCH, FETCH + "            for q in range(1, k):\n" + indented(FETCH).replace("NEXT", "NEXT_INNER")
    ).replace(USE, USE + "            for q in range(1, k):\n" + indented(USE).replace("NEXT", "NEXT_INNER")),
}
"""Loops in which a counter has several steps in an iteration."""


def schedule(counter: str, old: str = "", new: str = "", text: str = KERNEL) -> str:
    """A kernel whose roles have a counter, after a change of the counter's steps."""
    first, stage, parity, step = COUNTERS[counter]
    inner = step.replace("\n", "\n    ")
    text = text.replace("NEXT_INNER", inner)
    for name, part in (
        ("FIRST", first),
        ("STAGE", stage),
        ("PARITY", parity),
        ("NEXT", step.replace(old, new)),
    ):
        text = text.replace(name, part)
    return text


@sampled(2, ("counter", "stages"), [(c, s) for c in COUNTERS for s in (3, 2, 5)])
def test_stages_and_parities_of_counters_are_proved(counter: str, stages: int) -> None:
    assert outcome(lowered(kernel(schedule(counter), None, stages))) == "proved"


LEFT = "the iterations until the last stage"


@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_counters_with_several_steps_in_an_iteration_are_proved(shape: str, stages: int) -> None:
    text = SHAPES[shape]
    assert outcome(lowered(kernel(schedule(LEFT, text=text), None, stages))) == "proved"
    wrong = schedule(LEFT, "left, p = 0, S", "left, p = 0, S + 1", text)
    assert outcome(lowered(kernel(wrong, None, stages))) != "proved"


@pytest.mark.parametrize("fault", WRONG)
def test_wrong_counters_are_not_proved(fault: str) -> None:
    assert outcome(lowered(kernel(schedule(*WRONG[fault]), None, 3))) != "proved"


TWO_COUNTERS = """def two(x: tg.array2d[float], out: tg.array2d[float], tiles: int, steps: int):
    assert tiles >= 0 and steps >= 0
    assert tiles * steps < BOUND
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.role("fetch", warps=1):
        FIRST
        for t in range(tiles):
            for q in range(steps):
                k = NUMBER
                tg.mbarrier_wait(empty, k % S, (k // S & 1) ^ 1)
                tg.mbarrier_expect_bytes(full, k % S, N * 4)
                tg.tile_load_async(x, ring[k % S], (k, 0), full, k % S)
                NEXT
    with tg.ws(1):
        k = -1
        for t in range(tiles):
            for q in range(steps):
                k += 1
                tg.mbarrier_wait(full, k % S, k // S & 1)
                tg.tile_store(out, ring[k % S], offset=(k, 0))
                tg.fence_async()
                tg.mbarrier_arrive(empty, k % S)
"""
ITEMS_OF_TWO = {
    "twice the items": ("m = 0", "m // 2", "m += 2"),
    "the items that are left": ("m = tiles * steps", "tiles * steps - m", "m -= 1"),
}


def two_counters(items: str, bound: int) -> str:
    parts = zip(("FIRST", "NUMBER", "NEXT"), ITEMS_OF_TWO[items], strict=True)
    text = TWO_COUNTERS.replace("BOUND", str(bound))
    for name, part in parts:
        text = text.replace(name, part)
    return text


@pytest.mark.parametrize("items", ITEMS_OF_TWO)
def test_items_from_numbers_that_do_not_wrap_are_proved(items: str) -> None:
    assert outcome(lowered(kernel(two_counters(items, 2**20)))) == "proved"


@pytest.mark.slow
def test_items_from_a_number_that_wraps_are_not_proved() -> None:
    """Half of a counter of the double items is wrong from item 2^30 on."""
    assert outcome(lowered(kernel(two_counters("twice the items", 2**30 + 2)))) != "proved"
