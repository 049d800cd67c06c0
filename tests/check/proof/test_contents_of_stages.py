"""Numbers that roles hand to each other in stages of shared memory: what is read equals what was stored."""

from __future__ import annotations

import pytest
from equivalent_rewrites import kernel
from proofs import outcome
from schedules import lowered

from tegula.ops.buffer import BufWrite

HEAD = """def drawn(x: tg.array2d[float], out: tg.array2d[float], n: int, steps: int, count: tg.array[int]):
"""
ROWS = "    rows = tg.tile_pipe(shape=(1, N), dtype=float, stages=2)\n"
SLOTS = (
    HEAD
    + """    rows = tg.tile_empty(shape=(2, 1, N), dtype=float, storage="shared")
    filled, empty = tg.mbarrier(1, stages=2), tg.mbarrier(4, stages=2)
    slots = tg.tile_empty(shape=(S, 4), dtype=int, storage="shared")
    full, free = tg.mbarrier(1, stages=S), tg.mbarrier(5, stages=S)
    with tg.role("draw", warps=1):
        k = 0
        go = 1
        while go > 0:
            t = tg.tile_atomic_add(count, tg.tile_ones(shape=1, dtype=int))[0]
            tg.mbarrier_wait(free, k % S, k // S + 1)
            slots[k % S] = tg.tile_full(shape=4, value=t, dtype=int)
            tg.mbarrier_arrive(full, k % S)
            k += 1
            if t >= n:
                go = 0
    with tg.role("fetch", warps=1):
        k = 0
        c = 0
        more = 1
        while more > 0:
            tg.mbarrier_wait(full, k % S, k // S)
            t = slots[k % S][0]
            tg.mbarrier_arrive(free, k % S)
            k += 1
            if t >= n:
                more = 0
            else:
                for q in range(steps):
                    tg.mbarrier_wait(empty, c % 2, c // 2 + 1)
                    tg.mbarrier_expect_bytes(filled, c % 2, N * 4)
                    tg.tile_load_async(x, rows[c % 2], (t * steps + q, 0), filled, c % 2)
                    c += 1
    with tg.role("store", warps=4):
        k = 0
        c = 0
        more = 1
        while more > 0:
            tg.mbarrier_wait(full, k % S, k // S)
            u = slots[k % S][1]
            tg.mbarrier_arrive(free, k % S)
            k += 1
            if u >= n:
                more = 0
            else:
                for q in range(steps):
                    tg.mbarrier_wait(filled, c % 2, c // 2)
                    tg.tile_store(out, rows[c % 2], offset=(u * steps + q, 0))
                    tg.fence_async()
                    tg.mbarrier_arrive(empty, c % 2)
                    c += 1
"""
)
PIPE = (
    HEAD
    + ROWS
    + """    tiles = tg.tile_pipe(shape=1, dtype=int, stages=S)
    with tg.role("draw", warps=1):
        go = 1
        while go > 0:
            t = tg.tile_atomic_add(count, tg.tile_ones(shape=1, dtype=int))
            tg.tile_pipe_push(tiles, t)
            if t[0] >= n:
                go = 0
    with tg.role("fetch", warps=1):
        while True:
            t = tg.tile_pipe_pop(tiles)
            if t[0] >= n:
                break
            for q in range(t[0] % 3 + 1):
                tg.tile_pipe_load(rows, x, offset=(t[0], 0))
    with tg.role("store", warps=4):
        while True:
            u = tg.tile_pipe_pop(tiles)[0]
            if u >= n:
                break
            for q in range(u % 3 + 1):
                tg.tile_store(out, tg.tile_pipe_pop(rows), offset=(u, 0))
"""
)
RELAY = (
    HEAD
    + ROWS
    + """    tiles, sent = tg.tile_pipe(shape=4, dtype=int, stages=S), tg.tile_pipe(shape=4, dtype=int, stages=S)
    with tg.role("draw", warps=1):
        while True:
            t = tg.tile_atomic_add(count, tg.tile_ones(shape=1, dtype=int))[0]
            tg.tile_pipe_push(tiles, tg.tile_full(shape=4, value=t, dtype=int))
            if t >= n:
                break
    with tg.role("fetch", warps=1):
        while True:
            t = tg.tile_pipe_pop(tiles)
            tg.tile_pipe_push(sent, t)
            if t[0] >= n:
                break
            for q in range(steps):
                tg.tile_pipe_load(rows, x, offset=(t[0], 0))
    with tg.role("store", warps=4):
        while True:
            u = tg.tile_pipe_pop(sent)[2]
            if u >= n:
                break
            for q in range(steps):
                tg.tile_store(out, tg.tile_pipe_pop(rows), offset=(u, 0))
"""
)
COUNTDOWN = (
    SLOTS.replace(
        "        c = 0\n        more = 1\n", "        c = 0\n        s, p, left = 0, 0, S\n        more = 1\n"
    )
    .replace("mbarrier_wait(full, k % S, k // S)", "mbarrier_wait(full, s, p)")
    .replace(" = slots[k % S][", " = slots[s][")
    .replace(
        "(free, k % S)\n            k += 1\n",
        "(free, s)\n            s += 1\n            left -= 1\n            if left == 0:\n"
        "                s, left = 0, S\n                p ^= 1\n",
    )
)
"""The readers count the slots that are left until the first one follows."""
PUT = "            slots[k % S] = tg.tile_full(shape=4, value=t, dtype=int)\n"
VECTOR = (
    SLOTS.replace("shape=(S, 4)", "shape=S")
    .replace(PUT, "            slots[k % S] = t\n")
    .replace("slots[k % S][0]", "slots[k % S]")
    .replace("slots[k % S][1]", "slots[k % S]")
)
"""Each slot is an element of a vector."""
ELEMENTS = SLOTS.replace(
    PUT, "            slots[k % S, 0] = t // 4\n            slots[k % S, 1] = t\n"
).replace("slots[k % S][0]", "slots[k % S][1]")
"""Each slot has two numbers."""
RIGHT = {
    "slots": SLOTS,
    "pipe": PIPE,
    "relay": RELAY,
    "countdown": COUNTDOWN,
    "vector": VECTOR,
    "elements": ELEMENTS,
}
TAKE = "            t = slots[k % S][0]\n"
FREE = "            tg.mbarrier_arrive(free, k % S)\n"
FULL = "            tg.mbarrier_arrive(full, k % S)\n"
WAIT = "            tg.mbarrier_wait(full, k % S, k // S)\n"
ATOMIC = "tg.tile_atomic_add(count, tg.tile_ones(shape=1, dtype=int))[0]"
WRONG = {
    "a number is read after the release of its slot": ("slots", TAKE + FREE, FREE + TAKE),
    "a number is read before it is handed over": ("slots", WAIT + TAKE, TAKE + WAIT),
    "a reader stores another number": ("slots", TAKE, TAKE + PUT.replace("value=t", "value=t + 1")),
    "a reader stores the number that it has read": ("slots", TAKE, TAKE + PUT),
    "two stores, and the other number is compared": ("slots", PUT, PUT + PUT.replace("value=t", "value=t + 1")),
    "the number of one iteration is stored later": ("slots", PUT + FULL, FULL + PUT),
    "one element is another number": ("slots", FULL, f"            slots[k % S, 1] = t + int(t == 9)\n{FULL}"),
    "a part of the slot is stored": (
        "slots",
        PUT,
        "            slots[k % S, 0:1] = tg.tile_full(shape=1, value=t, dtype=int)\n",
    ),
    "some lanes store": (
        "slots",
        PUT,
        "            if tg.group_lane() < 2:\n                slots[k % S, tg.group_lane()] = t\n",
    ),
    "another slot is stored to": ("slots", PUT, PUT.replace("slots[k % S]", "slots[(k + 1) % S]")),
    "another slot is read": ("slots", TAKE, TAKE.replace("slots[k % S]", "slots[(k + 1) % S]")),
    "the second reader does not release": (
        "slots",
        "mbarrier(5, stages=S)",
        "mbarrier(1, stages=S)",
        "            u = slots[k % S][1]\n" + FREE,
        "            u = slots[k % S][1]\n",
    ),
    "the second reader releases for both": (
        "slots",
        "mbarrier(5, stages=S)",
        "mbarrier(4, stages=S)",
        TAKE + FREE,
        TAKE,
    ),
    "the other element is read": ("elements", "u = slots[k % S][1]", "u = slots[k % S][0]"),
    "an element that nobody stored is read": ("elements", "u = slots[k % S][1]", "u = slots[k % S][2]"),
    "an element is stored twice": (
        "elements",
        "slots[k % S, 1] = t\n",
        "slots[k % S, 1] = t\n            slots[k % S, 1] = t + 1\n",
    ),
    "an element that no constant selects is stored, too": (
        "elements",
        "slots[k % S, 1] = t\n",
        "slots[k % S, 1] = t\n            slots[k % S, t % 4] = 0\n",
    ),
    "lanes store different numbers": ("elements", "slots[k % S, 1] = t\n", "slots[k % S, 1] = t + tg.group_lane()\n"),
    "some lanes store the element": (
        "vector",
        "            slots[k % S] = t\n",
        "            if tg.group_lane() > t:\n                slots[k % S] = t\n",
    ),
    "an element of another slot is stored": ("vector", "slots[k % S] = t", "slots[(k + 1) % S] = t"),
    "an element is read after the release of its slot": (
        "vector",
        "            t = slots[k % S]\n            tg.mbarrier_arrive(free, k % S)\n",
        "            tg.mbarrier_arrive(free, k % S)\n            t = slots[k % S]\n",
    ),
    "an element is stored to before its slot is free": (
        "vector",
        "            tg.mbarrier_wait(free, k % S, k // S + 1)\n            slots[k % S] = t\n",
        "            slots[k % S] = t\n            tg.mbarrier_wait(free, k % S, k // S + 1)\n",
    ),
    "a reader leaves on another condition": ("slots", "if u >= n", "if u > n"),
    "a reader leaves on another number": ("slots", "if u >= n", "if u + 1 >= n"),
    "the drawing role continues": ("slots", "t >= n:\n                go", "t > n:\n                go"),
    "a reader walks another number of steps": (
        "slots",
        "range(steps):\n                    tg.mbarrier_wait(filled",
        "range(u):\n                    tg.mbarrier_wait(filled",
    ),
    "a reader draws a number of its own": ("slots", "u = slots[k % S][1]", f"u = {ATOMIC}"),
    "bytes of a drawn tile are not announced": (
        "slots",
        "                    tg.mbarrier_expect_bytes(filled, c % 2, N * 4)\n",
        "",
    ),
    "another number is sent": ("slots", "value=t, ", f"value={ATOMIC}, "),
    "the number that was not sent is compared": (
        "pipe",
        "if t[0] >= n:\n                go",
        f"if {ATOMIC} >= n:\n                go",
    ),
    "a number is read from the next item": (
        "pipe",
        "            if u >= n",
        "            u = tg.tile_pipe_pop(tiles)[0]\n            if u >= n",
    ),
    "steps of another number": ("pipe", "range(u % 3 + 1)", "range(u % 3 + 2)"),
    "another number is handed on": ("relay", "tg.tile_pipe_push(sent, t)", "tg.tile_pipe_push(sent, t + t)"),
    "an element is changed on the way": (
        "relay",
        "            tg.tile_pipe_push(sent, t)\n",
        "            e = tg.copy(t)\n            e[2] = e[2] + 1\n            tg.tile_pipe_push(sent, e)\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("name", RIGHT)
def test_roles_that_read_the_same_number_take_the_same_decisions(name: str, stages: int) -> None:
    assert outcome(lowered(kernel(RIGHT[name], None, stages))) == "proved"


LONG_SEARCHES = {
    "a reader walks another number of steps",
    "a reader leaves on another number",
    "a reader leaves on another condition",
    "a reader draws a number of its own",
    "steps of another number",
    "another number is handed on",
    "an element is changed on the way",
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in LONG_SEARCHES else name for name in WRONG]
)
def test_roles_that_may_read_another_number_are_not_proved(name: str) -> None:
    original, *changes = WRONG[name]
    text = RIGHT[original]
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert old in text
        text = text.replace(old, new)
    assert outcome(lowered(kernel(text, None, 2))) != "proved"


def test_a_stage_does_not_hold_a_number_that_is_rounded_when_it_is_stored() -> None:
    lowered_kernel, compilation = lowered(kernel(SLOTS))
    assert outcome((lowered_kernel, compilation)) == "proved"
    for op in lowered_kernel.walk():
        if isinstance(op, BufWrite) and not op.to_tf32:
            op.to_tf32 = True
    assert outcome((lowered_kernel, compilation)) != "proved"
