"""Loops that a `break`, `continue` or `return` leaves, and counters that are incremented in branches."""

from __future__ import annotations

import textwrap

import pytest
from equivalent_rewrites import kernel
from proofs import outcome
from schedules import lowered

from support.campaigns import sampled

PIPES = """def leaving(
    x: tg.array2d[float], out: tg.array2d[float], a: tg.array1d[int], c: tg.array1d[int], n: int, m: int
):
    tickets = tg.tile_pipe(shape=1, dtype=int, stages=2)
    pipe = tg.tile_pipe(shape=(1, N), dtype=float, stages=S)
    with tg.role("fetch", warps=1):
FETCH
    with tg.role("store", warps=4):
STORE
"""
LOAD = "tg.tile_pipe_load(pipe, x, offset=(0, 0))"
STORE = "tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(0, 0))"
LOOPS = {
    "while": "i = 0\nwhile True:\n    if a[i] < 0:\n        break\n    ITEM\n    i += 1",
    "while, at its end": "i = 0\nwhile True:\n    ITEM\n    i += 1\n    if a[i] < 0:\n        break",
    "for": "for i in range(n):\n    if a[i] == m:\n        break\n    ITEM",
    "for, at its end": "for i in range(n):\n    for j in range(m):\n        ITEM\n    if a[i] < 0:\n        break",
    "descending": "for i in range(n, m, -1):\n    ITEM\n    if a[i] < 0:\n        break",
    "return": "for i in range(n):\n    if a[i] < 0:\n        return\n    for j in range(m):\n        ITEM",
}
WRONG = {
    "another condition": ("while", "a[i] < 0", "a[i] < 1"),
    "another end": ("for, at its end", "range(n)", "range(n + 1)"),
    "one iteration more": ("for", "if a[i] == m", "if i > 0 and a[i - 1] == m"),
    "before the item": (
        "descending",
        "ITEM\n    if a[i] < 0:\n        break",
        "if a[i] < 0:\n        break\n    ITEM",
    ),
}
TICKETS = """
    with tg.role("take", warps=1):
        while True:
            t = tg.uniform(tg.atomic_add(c, 0, 1))
            tg.tile_pipe_push(tickets, tg.tile_full(shape=1, value=t, dtype=int))
            if t >= n:
                break
"""
TICKET = """while True:
    t = tg.tile_pipe_pop(tickets)[0]
    if t >= n:
        break
    for j in range(m):
        ITEM"""


def roles(fetch: str, store: str) -> str:
    """A kernel whose roles have these loops."""
    texts = (
        textwrap.indent(loop.replace("ITEM", item), " " * 8) for loop, item in ((fetch, LOAD), (store, STORE))
    )
    return PIPES.replace("FETCH", next(texts)).replace("STORE", next(texts))


@pytest.mark.parametrize("loop", LOOPS)
def test_roles_that_leave_a_loop_alike_are_proved(loop: str) -> None:
    assert outcome(lowered(kernel(roles(LOOPS[loop], LOOPS[loop])))) == "proved"


@pytest.mark.parametrize("fault", WRONG)
def test_roles_that_leave_a_loop_in_different_iterations_are_not_proved(fault: str) -> None:
    loop, old, new = WRONG[fault]
    assert old in LOOPS[loop]
    text = roles(LOOPS[loop], LOOPS[loop].replace(old, new))
    assert outcome(lowered(kernel(text))) != "proved"


@pytest.mark.parametrize("fault", [False, True])
def test_tickets_are_taken_until_a_break(fault: bool) -> None:
    taken = TICKET.replace("t >= n", "t > n") if fault else TICKET
    text = roles(TICKET, taken) + TICKETS.replace("\n", "", 1)
    assert (outcome(lowered(kernel(text))) == "proved") is not fault


SENDERS = {
    "an item after the loop": """
t = NEXT
while t < n:
    PUSH
    t = NEXT
t = n
PUSH""",
    "the number that ends the loop": """
t = NEXT
while t < n:
    PUSH
    t = NEXT
PUSH""",
    "a loop that checks what it has sent": """
t = -1
while t < n:
    t = NEXT
    PUSH""",
}
RECEIVERS = {
    "break": TICKET,
    "while": """t = tg.tile_pipe_pop(tickets)[0]
while t < n:
    for j in range(m):
        ITEM
    t = tg.tile_pipe_pop(tickets)[0]""",
}
NUMBERS = {"drawn": "tg.uniform(tg.atomic_add(c, 0, 1))", "read": "a[t]"}


def sent(sender: str, number: str, fetch: str, store: str) -> str:
    """A kernel in which a role sends numbers to two others, and at last one that is at least n."""
    push = "tg.tile_pipe_push(tickets, tg.tile_full(shape=1, value=t, dtype=int))"
    text = SENDERS[sender].replace("PUSH", push)
    text = "t = 0" + text.replace("NEXT", NUMBERS[number])
    body = textwrap.indent(text, " " * 8)
    kernel_text = roles(fetch, store) + f'    with tg.role("take", warps=1):\n{body}\n'
    return kernel_text.replace("    tickets =", "    assert n >= 0\n    tickets =")


@sampled(
    3,
    ("sender", "number", "fetch", "store"),
    [
        ("an item after the loop", "drawn", "while", "while"),
        ("the number that ends the loop", "read", "break", "while"),
        ("a loop that checks what it has sent", "drawn", "break", "break"),
        ("the number that ends the loop", "drawn", "while", "break"),
        ("a loop that checks what it has sent", "read", "while", "while"),
        ("an item after the loop", "read", "break", "break"),
    ],
)
def test_numbers_that_a_role_sends_end_the_loops_of_others(
    sender: str, number: str, fetch: str, store: str
) -> None:
    text = sent(sender, number, RECEIVERS[fetch], RECEIVERS[store])
    assert outcome(lowered(kernel(text))) == "proved"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("t = n\n", "t = n - 1\n"),
        ("t = n\n", "t = a[0]\n"),
        ("while t < n:\n            for", "while t <= n:\n            for"),
    ],
)
def test_numbers_that_do_not_end_the_loops_of_others_are_not_proved(old: str, new: str) -> None:
    text = sent("an item after the loop", "drawn", RECEIVERS["while"], RECEIVERS["break"])
    assert old in text
    assert outcome(lowered(kernel(text.replace(old, new, 1)))) != "proved"


LATE = """def late(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.role("fetch", warps=1):
        for k in range(n):
            tg.mbarrier_wait(empty, k % S, k // S + 1)
            tg.mbarrier_expect_bytes(full, k % S, N * 4)
            tg.tile_load_async(x, ring[k % S], (k, 0), full, k % S)
    with tg.ws(1):
        released = 0
        for k in range(n):
            tg.mbarrier_wait(full, k % S, k // S)
            tg.tile_store(out, ring[k % S], offset=(k, 0))
            tg.fence_async()
            if k >= LAG:
                tg.mbarrier_arrive(empty, released % S)
                released += 1
        for k in range(tg.min(n, LAG)):
            tg.mbarrier_arrive(empty, released % S)
            released += 1
"""


@pytest.mark.parametrize(("lag", "proved"), [(1, True), (2, True), (3, False)])
def test_a_counter_of_late_releases_is_proved(lag: int, proved: bool) -> None:
    assert (outcome(lowered(kernel(LATE.replace("LAG", str(lag)), None, 3))) == "proved") is proved


PREFETCH = """def prefetch(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full = tg.mbarrier(1, stages=S)
    with tg.role("all", warps=1):
        for k in range(tg.min(AHEAD, n)):
            tg.mbarrier_expect_bytes(full, k % S, N * 4)
            tg.tile_load_async(x, ring[k % S], (k, 0), full, k % S)
        for k in range(n):
            if k + AHEAD < n:
                q = (k + AHEAD) % S
                tg.mbarrier_expect_bytes(full, q, N * 4)
                tg.tile_load_async(x, ring[q], (k, 0), full, q)
            tg.mbarrier_wait(full, k % S, k // S)
            tg.tile_store(out, ring[k % S], offset=(k, 0))
            tg.fence_async()
    with tg.role("idle", warps=1):
        tg.tile_store(out, tg.tile_zeros(shape=(1, N)), offset=(0, 0))
"""


@pytest.mark.parametrize(("ahead", "proved"), [("1", True), ("2", True), ("3", False)])
def test_a_role_that_fetches_ahead_for_itself_is_proved(ahead: str, proved: bool) -> None:
    assert (outcome(lowered(kernel(PREFETCH.replace("AHEAD", ahead), None, 3))) == "proved") is proved


@pytest.mark.parametrize(("last", "proved"), [("d <= 1", True), ("d <= 3", False)])
def test_a_role_that_fetches_ahead_by_an_argument_is_proved(last: str, proved: bool) -> None:
    text = PREFETCH.replace("AHEAD", "d").replace(
        "n: int):", f"n: int, d: int):\n    assert d >= 1 and {last}"
    )
    assert (outcome(lowered(kernel(text, None, 3))) == "proved") is proved


ONE_STAGE = """def flat(x: tg.array2d[float], out: tg.array2d[float], n: int, m: int):
    assert n >= 0 and m >= 0
    ring = tg.tile_empty(shape=(1, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1), tg.mbarrier(4)
    with tg.role("fetch", warps=1):
        phase = 1
        for i in range(n):
            for j in range(m):
                tg.mbarrier_wait(empty, 0, phase)
                tg.mbarrier_expect_bytes(full, 0, N * 4)
                tg.tile_load_async(x, ring[0], (i, 0), full, 0)
                phase ^= 1
    with tg.ws(1):
        for k in range(n * m):
            tg.mbarrier_wait(full, 0, k % 2)
            tg.tile_store(out, ring[0], offset=(k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, 0)
"""


@pytest.mark.parametrize(("trip", "proved"), [("n * m", True), ("n * m - 1", False)])
def test_inner_loops_without_iterations_change_nothing(trip: str, proved: bool) -> None:
    assert (outcome(lowered(kernel(ONE_STAGE.replace("n * m", trip)))) == "proved") is proved
