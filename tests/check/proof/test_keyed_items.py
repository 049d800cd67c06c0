"""Items that are in use while a key is unchanged, and facts about them in loops."""

from __future__ import annotations

from typing import Any

import pytest
from equivalent_rewrites import kernel
from proofs import outcome
from schedules import lowered

from support.campaigns import sampled

KEYS = """def keyed(
    x: tg.array2d[float], y: tg.array2d[float], out: tg.array2d[float], n: int, m: int, d: int, keys: tg.array1d[int]
):
    assert n >= 0 and n <= 30000 and m >= 0 and m <= 30000
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    other = tg.tile_empty(shape=(2, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    loaded, unused = tg.mbarrier(1, stages=2), tg.mbarrier(4, stages=2)
    with tg.role("fetch", warps=1):
        k = int(0)
        at = int(-1)
FETCH
    with tg.ws(1):
        k = int(0)
        at = int(-1)
READ
"""
FETCH = """tg.mbarrier_wait(empty, k % S, k // S + 1)
tg.mbarrier_expect_bytes(full, k % S, N * 4)
tg.tile_load_async(x, ring[k % S], (k, 0), full, k % S)
if k == 0 or keys[k] != keys[k - 1]:
    at += 1
    tg.mbarrier_wait(unused, at % 2, (at // 2 & 1) ^ 1)
    tg.mbarrier_expect_bytes(loaded, at % 2, N * 4)
    tg.tile_load_async(y, other[at % 2], (keys[k], 0), loaded, at % 2)
k += 1"""
READ = """if k == 0 or keys[k] != keys[k - 1]:
    if k > 0:
        tg.fence_async()
        tg.mbarrier_arrive(unused, at % 2)
    at += 1
    tg.mbarrier_wait(loaded, at % 2, at // 2 & 1)
tg.mbarrier_wait(full, k % S, k // S)
tg.tile_store(out, ring[k % S] * other[at % 2], offset=(k, 0))
tg.fence_async()
tg.mbarrier_arrive(empty, k % S)
k += 1"""
LOOPS = {
    "one loop": ("for q in range(n):",),
    "a window": ("for j in range(n):", "for q in range(tg.max(0, j - m), tg.min(j + m + 1, d)):"),
    "nested": ("for i in range(n):", "for j in range(m):"),
    "flat": ("for q in range(n * m):",),
}
PAIRS = [("one loop", "one loop"), ("a window", "a window"), ("flat", "nested")]


def looped(name: str, body: str) -> str:
    loops = [f"{'    ' * k}{line}" for k, line in enumerate(LOOPS[name])]
    inner = [f"{'    ' * len(loops)}{line}" for line in body.splitlines()]
    return "\n".join(f"        {line}" for line in (*loops, *inner))


def keyed(first: str, second: str, read: str = READ) -> Any:
    text = KEYS.replace("FETCH", looped(first, FETCH)).replace("READ", looped(second, read))
    return lowered(kernel(text))


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_stages_released_when_a_key_changes_are_proved(first: str, second: str) -> None:
    assert outcome(keyed(first, second)) == "proved"


@sampled(3, ("first", "second"), PAIRS, slow=1)
@sampled(
    3,
    ("released", "instead"),
    [
        ("if k > 0:", "if k > 1:"),  # the first key change after item 1 releases nothing
        ("if k > 0:", "if k >= 0:"),  # a release before the first use
        ("keys[k] != keys[k - 1]", "keys[k] > keys[k - 1]"),  # other changes of keys
    ],
)
def test_faulty_releases_by_key_are_not_proved(first: str, second: str, released: str, instead: str) -> None:
    assert outcome(keyed(first, second, READ.replace(released, instead, 1))) != "proved"


KEPT = """def kept(
    x: tg.array2d[float], y: tg.array2d[float], out: tg.array2d[float], n: int, keys: tg.array1d[int],
    others: tg.array1d[int]
):
    rows = tg.tile_pipe(shape=(1, N), dtype=float, stages=3)
    right = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    loaded, unused = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.role("fetch", warps=1):
        c = 0
        last = -1
        for i in range(n):
            if i == 0 or keys[i] != last:
                tg.mbarrier_wait(unused, c % S, c // S + 1)
                tg.mbarrier_expect_bytes(loaded, c % S, N * 4)
                tg.tile_load_async(y, right[c % S], (keys[i], 0), loaded, c % S)
                c += 1
                last = keys[i]
            tg.tile_pipe_load(rows, x, offset=(i, 0))
    with tg.ws(1):
        c = 0
        for i in range(n):
            if i == 0 or keys[i] != keys[i - 1]:
                tg.mbarrier_wait(loaded, c % S, c // S)
            tg.tile_store(out, tg.tile_pipe_pop(rows) * right[c % S], offset=(i, 0))
            tg.fence_async()
            if i == n - 1 or keys[i + 1] != keys[i]:
                tg.mbarrier_arrive(unused, c % S)
                c += 1
"""
WRONG_KEPT = [
    ("keys[i] != last", "others[i] != last"),
    ("keys[i] != last", "keys[i] > last"),
    ("last = keys[i]", "last = keys[0]"),
    ("keys[i] != keys[i - 1]", "keys[i] != keys[0]"),
    ("keys[i + 1] != keys[i]", "keys[i] != keys[i - 1]"),  # after the first of a key
    ("keys[i + 1] != keys[i]", "keys[i + 1] > keys[i]"),
    ("i == n - 1 or keys[i + 1]", "i == n - 2 or keys[i + 1]"),
    ("i == n - 1 or keys[i + 1] != keys[i]", "i >= 0"),
    (
        "            tg.fence_async()\n",
        "            tg.fence_async()\n            keys[i] = i\n",
    ),
    ("tg.mbarrier_wait(unused, c % S, c // S + 1)", "tg.mbarrier_wait(unused, c % S, c // S)"),
    (" * right[c % S]", " * 2.0"),  # nobody reads what copies fill
]


@pytest.mark.parametrize("stages", [1, 3])
def test_stages_released_after_the_last_of_a_key_are_proved(stages: int) -> None:
    assert outcome(lowered(kernel(KEPT, None, stages))) == "proved"


@sampled(3, ("old", "new"), WRONG_KEPT, slow=1)
def test_stages_released_before_the_last_of_a_key_are_not_proved(old: str, new: str) -> None:
    assert old in KEPT
    assert outcome(lowered(kernel(KEPT.replace(old, new), None, 2))) != "proved"


TWO_RINGS = """def rings(x: tg.array2d[float], out: tg.array2d[float], n: int, m: int):
    one = tg.tile_pipe(shape=(1, 32), dtype=float, stages={one})
    two = tg.tile_pipe(shape=(1, 32), dtype=float, stages={two})
    with tg.role("fetch", warps=1):
        for i in range(n):
            tg.tile_pipe_load(one, x, offset=(i, 0))
            for j in range(m):
                tg.tile_pipe_load(two, x, offset=(j, 0))
    with tg.ws(1):
        for i in range(n):
            tile = tg.tile_pipe_pop(one)
            for j in range({last}):
                tg.tile_store(out, tile * tg.tile_pipe_pop(two), offset=(i, 0))
"""


@sampled(3, ("first_stages", "second_stages"), [(1, 1), (3, 3), (2, 1)], slow=1)
def test_pipes_of_equal_stage_counts_are_distinguished(first_stages: int, second_stages: int) -> None:
    """A stage belongs to the barrier at which the stage is used, also in inner loops."""
    right, wrong = (
        TWO_RINGS.format(one=first_stages, two=second_stages, last=last) for last in ("m", "m + 1")
    )
    assert outcome(lowered(kernel(right))) == "proved"
    assert outcome(lowered(kernel(wrong))) != "proved"


REPEATED_KEYS = """def again(x: tg.array2d[float], out: tg.array2d[float], n: int):
    assert n % 2 == 0
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.role("fetch", warps=1):
        for k in range(n):
            tg.mbarrier_wait(empty, k % S, k // S + 1)
            tg.mbarrier_expect_bytes(full, k % S, N * 4)
            tg.tile_load_async(x, ring[k % S], (k, 0), full, k % S)
    with tg.ws(1):
        s = int(0)
        phase = int(0)
        total = tg.tile_zeros(shape=(1, N))
        for q in range(n // 2):
            for j in range(2):
                tg.mbarrier_wait(full, s, phase)
                total += ring[s]
                tg.mbarrier_wait(full, s, {phase})
                tg.fence_async()
                tg.mbarrier_arrive(empty, s)
                s = s + 1 if s < S - 1 else 0
                phase ^= int(s == 0)
        tg.tile_store(out, total, offset=(0, 0))
"""


@sampled(2, "stages", [1, 3])
def test_waits_repeated_in_pairs_of_iterations_are_proved(stages: int) -> None:
    assert outcome(lowered(kernel(REPEATED_KEYS.format(phase="phase"), stages=stages))) == "proved"
    assert outcome(lowered(kernel(REPEATED_KEYS.format(phase="phase ^ 1"), stages=stages))) != "proved"


LATE_RELEASES = """def late(x: tg.array2d[float], out: tg.array2d[float], n: int, m: int):
    assert n >= 0 and n <= 30000 and m >= 0 and m <= 30000
    ring = tg.tile_empty(shape=(4, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=4), tg.mbarrier(4, stages=4)
    with tg.role("fetch", warps=1):
        k = int(0)
        for i in range(n):
            for j in range(m):
                if k >= 4:
                    tg.mbarrier_wait(empty, k % 4, (k // 4 & 1) ^ 1)
                tg.mbarrier_expect_bytes(full, k % 4, N * 4)
                tg.tile_load_async(x, ring[k % 4], (k, 0), full, k % 4)
                k += 1
    with tg.ws(1):
        k = int(0)
        total = tg.tile_zeros(shape=(1, N))
        for i in range(n):
            for j in range(m):
                tg.mbarrier_wait(full, k % 4, k // 4 & 1)
                total += ring[{item} % 4]
                tg.fence_async()
                if k >= 3:
                    tg.mbarrier_arrive(empty, (k - 3) % 4)
                k += 1
        tg.tile_store(out, total, offset=(0, 0))
"""


def test_the_lead_of_a_role_over_its_accesses_decides_the_proof() -> None:
    """For its first items the role has released nothing; later it has released three items less than it has read."""
    assert outcome(lowered(kernel(LATE_RELEASES.format(item="k")))) == "proved"
    assert outcome(lowered(kernel(LATE_RELEASES.format(item="(k - 3)")))) != "proved"


LAST_KEYS = """def given_back(x: tg.array2d[float], out: tg.array2d[float], n: int, keys: tg.array1d[int]):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.role("fetch", warps=1):
        at = 0
        for k in range(n):
            if k == 0 or keys[k] != keys[k - 1]:
                tg.mbarrier_wait(empty, at % S, (at // S & 1) ^ 1)
                tg.mbarrier_expect_bytes(full, at % S, N * 4)
                tg.tile_load_async(x, ring[at % S], (keys[k], 0), full, at % S)
                at += 1
    with tg.ws(1):
        at = 0
        for k in range(n):
            if k == 0 or keys[k] != keys[k - 1]:
                if at > 0:
                    tg.fence_async()
                    tg.mbarrier_arrive(empty, (at - 1) % S)
                tg.mbarrier_wait(full, at % S, at // S & 1)
                at += 1
            tg.tile_store(out, ring[(at - 1) % S], offset=(k, 0))
"""


@pytest.mark.parametrize(
    ("old", "new", "proved"),
    [
        ("at > 0", "at > 0", True),
        ("at > 0", "at > 1", False),  # the first key is never given back
        ("if k == 0 or keys[k]", "if k == 1 or keys[k]", False),  # item 0 has no key
        ("ring[(at - 1) % S], offset", "ring[at % S], offset", False),  # the stage of the next key
    ],
)
def test_items_of_keys_are_given_back_by_their_number(old: str, new: str, proved: bool) -> None:
    assert old in LAST_KEYS
    assert (outcome(lowered(kernel(LAST_KEYS.replace(old, new)))) == "proved") is proved
