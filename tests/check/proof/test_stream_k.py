"""Blocks that take a range of units of work (tile, iteration), of which the ends may cut off the first and the last
tile, and wrong variants of them."""

from __future__ import annotations

import pytest
from equivalent_rewrites import kernel
from proofs import outcome
from schedules import lowered

HEAD = """def kernel(x: tg.array2d[float], out: tg.array2d[float], first: int, end: int, steps: int):
    assert steps > 0
    rows = tg.tile_pipe(shape=(1, N), dtype=float, stages=S)
"""
FLAT = """        for u in range(first, end):
            BODY
"""
TO_THE_END = """        u = first
        while u < end:
            stop = tg.min(end, (u // steps + 1) * steps)
            for k in range(u, stop):
                BODY
            u = stop
"""
IN_TILES = """        u = first
        while u < end:
            tile = u // steps
            start = u - tile * steps
            stop = tg.min(steps, start + end - u)
            for k in range(start, stop):
                BODY
            u += stop - start
"""
REMAINING = """        u = first
        left = end - first
        while left > 0:
            count = tg.min(left, steps - u % steps)
            for k in range(count):
                BODY
            u += count
            left -= count
"""
SUMS = """    sums = tg.tile_pipe(shape=(1, N), dtype=float, stages=2)
    with tg.ws(0):
        u = first
        while u < end:
            stop = tg.min(end, (u // steps + 1) * steps)
            for k in range(u, stop):
                tg.tile_pipe_load(rows, x, offset=(k, 0))
            u = stop
    with tg.ws(1):
        u = first
        while u < end:
            stop = tg.min(end, (u // steps + 1) * steps)
            total = tg.tile_zeros(shape=(1, N))
            for k in range(u, stop):
                total += tg.tile_pipe_pop(rows)
            tg.tile_pipe_push(sums, total)
            u = stop
    with tg.ws(2):
        u = first
        while u < end:
            tg.tile_store(out, tg.tile_pipe_pop(sums), offset=(u // steps, 0))
            u = tg.min(end, (u // steps + 1) * steps)
"""


def roles(load: str, pop: str) -> str:
    load = load.replace("BODY", "tg.tile_pipe_load(rows, x, offset=(u, 0))")
    pop = pop.replace("BODY", "tg.tile_store(out, tg.tile_pipe_pop(rows), offset=(u, 0))")
    return f"{HEAD}    with tg.ws(0):\n{load}    with tg.ws(1):\n{pop}"


RIGHT = {
    "to the end, both": roles(TO_THE_END, TO_THE_END),
    "to the end, flat": roles(FLAT, TO_THE_END),
    "in tiles, flat": roles(FLAT, IN_TILES),
    "what remains": roles(REMAINING, REMAINING),
    "sums of tiles": HEAD + SUMS,
}
WRONG = {
    "one unit too many": ("to the end, flat", "range(first, end)", "range(first, end + 1)"),
    "one unit too few": ("to the end, flat", "range(first, end)", "range(first + 1, end)"),
    "a unit is skipped between tiles": (
        "to the end, both",
        "            u = stop\n    with",
        "            u = stop + 1\n    with",
    ),
    "the last tile is whole": ("in tiles, flat", "stop = tg.min(steps, start + end - u)", "stop = steps"),
    "tiles of another length": (
        "sums of tiles",
        "u = tg.min(end, (u // steps + 1) * steps)",
        "u = tg.min(end, u + steps)",
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_ranges_of_units_are_proved(name: str) -> None:
    assert outcome(lowered(kernel(RIGHT[name]))) == "proved"


@pytest.mark.parametrize("name", WRONG)
def test_wrong_ranges_of_units_are_not_proved(name: str) -> None:
    which, old, new = WRONG[name]
    assert old in RIGHT[which]
    assert outcome(lowered(kernel(RIGHT[which].replace(old, new, 1)))) != "proved"
