"""Counts, stages and parities that change in branches or in every n-th iteration, and numbers of the launch from which
positions count: each correct schedule is proved, and a schedule with one changed line is not."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from equivalent_rewrites import kernel
from proofs import outcome
from schedules import lowered

FETCH = """tg.mbarrier_expect_bytes(full, s, 128)
tg.tile_load_async(x, ring[s], (k, 0), full, s)"""
READ = """tg.mbarrier_wait(full, s, phase)
tg.tile_store(out, ring[s], offset=(k, 0))
tg.fence_async()
tg.mbarrier_arrive(empty, s)"""
NEXT_STAGE = """s += 1
if s == 3:
    s = 0
    phase ^= 1
k += 1"""
STAGE = "s, phase = k % 3, k // 3 & 1"
WAIT = "tg.mbarrier_wait(empty, s, phase ^ 1)"
LATE_WAIT = f"if k >= 3:\n    {WAIT}"
COUNTERS = ("k = int(0)", "s = int(0)", "phase = int(0)")
KEY = "k == 0 or keys[k] != keys[k - 1]"
FETCH_KEY = f"""if {KEY}:
    at += 1
    tg.mbarrier_wait(unused, at % 2, (at // 2 & 1) ^ 1)
    tg.mbarrier_expect_bytes(loaded, at % 2, 128)
    tg.tile_load_async(y, other[at % 2], (keys[k], 0), loaded, at % 2)"""
READ_KEY = f"""if {KEY}:
    if k > 0:
        tg.fence_async()
        tg.mbarrier_arrive(unused, at % 2)
    at += 1
    tg.mbarrier_wait(loaded, at % 2, at // 2 & 1)"""
READ_BOTH = READ.replace("ring[s]", "ring[s] * other[at % 2]")
FETCH_GROUP = """if k % 3 == 0:
    at = k // 3
    tg.mbarrier_wait(unused, at % 2, (at // 2 & 1) ^ 1)
    tg.mbarrier_expect_bytes(loaded, at % 2, 128)
    tg.tile_load_async(y, other[at % 2], (at, 0), loaded, at % 2)"""
WAIT_FOR_GROUP = """if k % 3 == 0:
    tg.mbarrier_wait(loaded, t, odd)"""
RELEASE_GROUP = """if k % 3 == 2 or k == n - 1:
    tg.mbarrier_arrive(unused, t)"""
NEXT_GROUP = """
    t += 1
    if t == 2:
        t = 0
        odd ^= 1"""
READ_GROUP = READ.replace("ring[s]", "ring[s] * other[t]")
FILL = """written = g[k] > 1
if written:
    ring[s] = tg.tile_load(x, shape=(1, 32), offset=(k, 0)) * 3.0
    tg.fence_async()
if written:
    tg.mbarrier_arrive(full, s)
if not written:
    tg.mbarrier_expect_bytes(full, s, 128)
    tg.tile_load_async(x, ring[s], (k, 0), full, s)"""
STREAM = (
    "t = c * e",
    "while t < last:",
    "    stop = tg.min(last, (t // m + 1) * m)",
    "    for q in range(t, stop):",
)


class Schedule(NamedTuple):
    """A schedule of two roles: the opening and the body of the loop nest of each, the lines after an iteration of the
    second role's outer loop, and the change of a line that makes the schedule wrong."""

    first: tuple[str, ...]
    fetch: tuple[str, ...]
    second: tuple[str, ...]
    read: tuple[str, ...]
    change: tuple[str, str]
    close: tuple[str, ...] = ()


SCHEDULES = {
    "the parity of waits that begin late": Schedule(
        (*COUNTERS, "for q in range(n):", "    if g[q] > 2:"), (LATE_WAIT, FETCH, NEXT_STAGE),
        ("k = int(0)", "for q in range(n):", "    if g[q] > 2:"), (STAGE, READ, "k += 1"),
        ("if k >= 3:", "if k >= 4:"),
    ),
    "every third iteration against steps of three": Schedule(
        (*COUNTERS, "for q in range(n):", "    if q % 3 == 0:"), (WAIT, FETCH, NEXT_STAGE),
        ("for q in range(0, n, 3):",), ("k = q // 3", STAGE, READ.replace("tg.mbarrier_arrive(empty, s)",
         "if k > 0:\n    tg.mbarrier_arrive(empty, (k - 1) % 3)")),
        ("k = q // 3", "k = q // 3 + int(q == 300)"),
    ),
    "the key of every second iteration": Schedule(
        ("at = int(-1)", "k = int(0)", "for q in range(n):", "    if q % 2 == 0:"),
        (STAGE, WAIT, FETCH, FETCH_KEY, "k += 1"),
        ("at = int(-1)", "for q in range(0, n, 2):"), ("k = q // 2", STAGE, READ_KEY, READ_BOTH),
        ("if k > 0:", "if k > 1:"),
    ),
    "the key of items that data select": Schedule(
        ("at = int(-1)", "k = int(0)", "for q in range(n):", "    if g[q] > 2:"),
        (STAGE, WAIT, FETCH, FETCH_KEY, "k += 1"),
        ("at = int(-1)", "k = int(0)", "for q in range(n):", "    if g[q] > 2:"),
        (STAGE, READ_KEY, READ_BOTH, "k += 1"),
        ("if k > 0:", "if k > 0 and k != 90:"),
    ),
    "branches with opposite conditions": Schedule(
        (*COUNTERS, "for q in range(n):", "    if q % 4 == 2:"), (LATE_WAIT, FILL, NEXT_STAGE),
        ("for k in range((n + 1) // 4):",), (STAGE, READ),
        ("if not written:", "if not written or k == 90:"),
    ),
    "an item for three, given back after the last": Schedule(
        ("for k in range(n):",), (STAGE, WAIT, FETCH, FETCH_GROUP),
        ("for k in range(n):",), ("t, odd = k // 3 % 2, k // 3 // 2 & 1", STAGE, WAIT_FOR_GROUP, READ_GROUP,
         RELEASE_GROUP),
        ("k % 3 == 2 or", "k % 3 == 1 or"),
    ),
    "a stage that is counted when an item for three is given back": Schedule(
        ("for k in range(n):",), (STAGE, WAIT, FETCH, FETCH_GROUP),
        ("t = int(0)", "odd = int(0)", "for k in range(n):"), (STAGE, WAIT_FOR_GROUP, READ_GROUP,
         RELEASE_GROUP + NEXT_GROUP),
        ("k == n - 1", "k == n - 2"),
    ),
    "tiles from an argument on": Schedule(
        ("for q in range(c * e, last):",), ("k = q - c * e", STAGE, LATE_WAIT, FETCH),
        STREAM, ("k = q - c * e", STAGE, READ),
        ("for q in range(t, stop):", "for q in range(t, stop - int(q0 == t)):"), ("t = stop",),
    ),
    "items in a row, by row and column": Schedule(
        ("for i in range(n):", "    for j in range(m):"), ("k = i * m + j", STAGE, LATE_WAIT, FETCH),
        ("k = int(0)", "for i in range(n):", "    for j in range(m):"), (STAGE, READ, "k += 1"),
        ("if k >= 3:", "if k >= 3 + int(m == 9):"),
    ),
}  # fmt: skip
PREAMBLE = """def kernel(
    x: tg.array2d[float], y: tg.array2d[float], out: tg.array2d[float], n: int, m: int, c: int, e: int, q0: int,
    g: tg.array1d[int], keys: tg.array1d[int]
):
    assert m > 0 and m <= 30000 and n >= 0 and n <= 30000
    assert c >= 0 and c < 1000 and e >= 0 and e < 100000
    ring = tg.tile_empty(shape=(3, 1, 32), dtype=float, storage="shared")
    other = tg.tile_empty(shape=(2, 1, 32), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=3), tg.mbarrier(4, stages=3)
    loaded, unused = tg.mbarrier(1, stages=2), tg.mbarrier(4, stages=2)
    last = tg.min(c * e + e, n * m)
"""


def program(schedule: Schedule) -> str:
    text = PREAMBLE
    for head, opening, body, close in (
        ('tg.role("fetch", warps=1)', schedule.first, schedule.fetch, ()),
        ("tg.ws(1)", schedule.second, schedule.read, schedule.close),
    ):
        depth = 8 + len(opening[-1]) - len(opening[-1].lstrip()) + 4
        lines = [f"    with {head}:", *(" " * 8 + line for line in opening)]
        lines += [" " * depth + line for part in body for line in part.split("\n")]
        text += "\n".join([*lines, *(" " * (depth - 4) + line for line in close)]) + "\n"
    return text


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_with_counts_in_branches_are_proved(name: str) -> None:
    assert outcome(lowered(kernel(program(SCHEDULES[name])))) == "proved"


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_changed_line_is_not_proved(name: str) -> None:
    line, other = SCHEDULES[name].change
    text = program(SCHEDULES[name])
    assert line in text
    assert outcome(lowered(kernel(text.replace(line, other)))) != "proved"


AHEAD = """def ahead(x: tg.array2d[float], y: tg.array2d[float], out: tg.array2d[float], n: int):
    assert n >= 0 and n < 1000000000
    rows = tg.tile_pipe(shape=(1, 32), dtype=float, stages=4)
    more = tg.tile_pipe(shape=(1, 32), dtype=float, stages=2)
    with tg.role("fetch", warps=1):
        k = int(0)
        for q in range(n):
            if q % 5 == 1:
                tg.tile_pipe_load(rows, x, offset=(k, 0))
                if k >= 3:
                    tg.tile_pipe_load(more, y, offset=(k, 0))
                k += 1
        for j in range(tg.min(3, k)):
            tg.tile_pipe_load(more, y, offset=(j, 0))
    with tg.ws(1):
        for k in range((n + 3) // 5):
            one = tg.tile_pipe_pop(rows)
            two = tg.tile_pipe_pop(more)
            tg.tile_store(out, one * two, offset=(k, 0))
"""
"""The second role pops an item once the first one has fetched three more, in every fifth iteration."""


def test_a_role_follows_arrivals_that_begin_late() -> None:
    assert outcome(lowered(kernel(AHEAD))) == "proved"


@pytest.mark.parametrize(
    "change", [("min(3, k)", "min(2, k)"), ("k >= 3", "k >= 5"), ("(n + 3) // 5", "(n + 4) // 5")]
)
def test_a_role_that_waits_for_more_than_arrives_is_not_proved(change: tuple[str, str]) -> None:
    assert outcome(lowered(kernel(AHEAD.replace(*change)))) != "proved"


CHAIN = """def chain(x: tg.array2d[float], out: tg.array2d[float], n: int, m: int, c: int, e: int):
    assert m > 0 and m < 1000000 and n >= 0 and n < 2000
    assert c >= 0 and c < 1000 and e >= 0 and e < 1000000
    rows = tg.tile_pipe(shape=(1, 32), dtype=float, stages=2)
    more = tg.tile_pipe(shape=(1, 32), dtype=float, stages=3)
    first = c * e
    last = tg.min(first + e, n * m)
    with tg.ws(0):
        for q in range(first, last):
            tg.tile_pipe_load(rows, x, offset=(q - first, 0))
    with tg.ws(1):
        for q in range(first, last):
            row = tg.tile_pipe_pop(rows)
            tg.tile_pipe_push(more, row * row)
    with tg.ws(2):
        t = first
        while t < last:
            stop = tg.min(last, (t // m + 1) * m)
            for q in range(t, stop):
                tg.tile_store(out, tg.tile_pipe_pop(more) * 2.0, offset=(q - first, 0))
            t = stop
"""
"""The last role walks over tiles; the first one moves with it through the role between them."""


def test_roles_move_with_a_role_that_they_share_no_barrier_with() -> None:
    assert outcome(lowered(kernel(CHAIN))) == "proved"
    assert (
        outcome(lowered(kernel(CHAIN.replace("range(t, stop)", "range(t, stop + int(t == 77))")))) != "proved"
    )
