"""Pairs of loops in different forms: some agree in every launch that satisfies the guards, others do not."""

from __future__ import annotations

from typing import Any

import pytest
from equivalent_rewrites import kernel
from proofs import outcome, pipe
from schedules import lowered

from support.campaigns import sampled, slow_except
from tegula.check.proof import prove
from tegula.check.verifier import Rejected, verify

ROLES = """
    full, empty = tg.mbarrier(1, stages=3), tg.mbarrier(4, stages=3)
    ring = tg.tile_empty(shape=(3, 1, 32), dtype=float, storage="shared")
    with tg.role("fetch", warps=1):
{fetch}
    with tg.ws(1):
{read}
"""
FETCH = """tg.mbarrier_wait(empty, k % 3, k // 3 + 1)
tg.mbarrier_expect_bytes(full, k % 3, 128)
tg.tile_load_async(x, ring[k % 3], (k, 0), full, k % 3)"""
FETCH_WITHOUT_FIRST_WAITS = FETCH.replace("tg.mbarrier_wait(empty, k % 3, k // 3 + 1)", """if k >= 3:
    tg.mbarrier_wait(empty, k % 3, k // 3 + 1)""")  # fmt: skip
READ = """tg.mbarrier_wait(full, k % 3, k // 3)
tg.tile_store(out, ring[k % 3], offset=(k, 0))
tg.fence_async()
tg.mbarrier_arrive(empty, k % 3)"""


def indented(text: str, width: int) -> str:
    return "\n".join(" " * width + line for line in text.split("\n"))


def nested_in_loops(loops: str, body: str) -> str:
    """Loops around a body, which replaces the word BODY."""
    out = [
        indented(body, len(line) - len(line.lstrip())) if line.strip() == "BODY" else line
        for line in loops.split("\n")
    ]
    return indented("\n".join(out), 8)


def roles(asserts: str, first: str, second: str, fetch: str = FETCH) -> Any:
    head = "def kernel(x: tg.array2d[float], out: tg.array2d[float], flags: tg.array1d[int], n: int, m: int, d: int):"
    start = indented(asserts, 4) if asserts else ""
    return kernel(
        head
        + "\n"
        + start
        + ROLES.format(fetch=nested_in_loops(first, fetch), read=nested_in_loops(second, READ))
    )


PLAIN = "for k in range(n):\n    BODY"
SIZES = "assert n >= 0 and n <= 30000\nassert m >= 0 and m <= 30000"
NESTED = "for i in range(n):\n    for j in range(m):\n        k = i * m + j\n        BODY"
CONDITION = "k = int(0)\nfor q in range(n):\n    if flags[q] > m:\n        BODY\n        k += 1"
STEPS = "k = int(0)\nfor q in range(m, n, d):\n    BODY\n    k += 1"
TWO_CONDITIONS = CONDITION.replace("flags[q] > m", "q == 0 or (flags[q] != 3 or (m > 0 and m <= d))")
ONE_CONDITION = CONDITION.replace("flags[q] > m", "q == 0 or flags[q] != 3")
CONSECUTIVE = "for k in range(n):\n    BODY\nfor k in range(m):\n    BODY"
COUNTED = "k = int(0)\nfor j in range(m):\n    for i in range(n):\n        BODY\n        k += 1"
WINDOW = (
    "k = int(0)\nfor j in range(n):\n    for q in range(tg.max(0, j - m) + 2, tg.min(j + m + 1, d) + 2):\n"
    "        BODY\n        k += 1"
)
STRIPS = "k = int(0)\nfor q in range(n):\n    if q % {d} == {r}:\n        BODY\n        k += 1"
THIRD, LAST = STRIPS.format(d=3, r=1), STRIPS.format(d=48, r=47)
RIGHT = {
    "an assert on a condition within others": (
        "assert not (m > 0 and m <= d)",
        TWO_CONDITIONS,
        ONE_CONDITION,
        FETCH,
    ),
    "an assert on a remainder": ("assert n % 6 == 0", CONSECUTIVE, CONSECUTIVE, FETCH),
    "an assert on a remainder that is computed where it is needed": (
        "assert n >= 0 and n % 12 == 6",
        CONSECUTIVE,
        CONSECUTIVE,
        FETCH,
    ),
    "an assert on a remainder, of halves": (
        "assert n % 2 == 0",
        PLAIN,
        "for q in range(n // 2):\n    for j in range(2):\n        k = 2 * q + j\n        BODY",
        FETCH,
    ),
    "an assert that sums do not wrap": (
        "assert not (m > 0 and d > 0 and m + d < 0)",
        PLAIN,
        "for k in range(n):\n    if m > 0 and d > 0 and m + d < 0:\n        pass\n    else:\n        BODY",
        FETCH,
    ),
    "an assert of a disjunction": (
        "assert n == m or n == 7",
        PLAIN,
        "for k in range(m if n != 7 else 7):\n    BODY",
        FETCH,
    ),
    "nested, no wait for the first items": (
        SIZES,
        "for k in range(n * m):\n    BODY",
        COUNTED,
        FETCH_WITHOUT_FIRST_WAITS,
    ),
    "a window": ("", WINDOW.replace(" + 2", ""), WINDOW, FETCH),
    "one of three": ("assert n >= 0", THIRD, "for k in range((n + 1) // 3):\n    BODY", FETCH),
    "one of three, read": ("assert n >= 0", "for k in range((n + 1) // 3):\n    BODY", THIRD, FETCH),
    "one of three, no wait for the first items": (
        "assert n >= 0",
        THIRD,
        "for k in range((n + 1) // 3):\n    BODY",
        FETCH_WITHOUT_FIRST_WAITS,
    ),
    "one of 48": ("assert n >= 0", LAST, "for k in range(n // 48):\n    BODY", FETCH),
    "one of four, against steps of four": (
        "assert n >= 0",
        STRIPS.format(d=4, r=0),
        "for q in range(0, n, 4):\n    k = q // 4\n    BODY",
        FETCH,
    ),
    "shifted": ("", PLAIN, "for q in range(5, 5 + n):\n    k = q - 5\n    BODY", FETCH),
    "doubled": ("", PLAIN, "for q in range(0, 2 * n, 2):\n    k = q // 2\n    BODY", FETCH),
    "while": ("", PLAIN, "k = int(0)\nwhile k < n:\n    BODY\n    k += 1", FETCH),
    "no wait for the first items": ("", PLAIN, PLAIN, FETCH_WITHOUT_FIRST_WAITS),
    "nested": (SIZES, "for k in range(n * m):\n    BODY", NESTED, FETCH),
    "nested, of any size": ("assert n >= 0 and m >= 0", NESTED, NESTED, FETCH),
    "nested, of any size, and counted": (
        "assert n >= 0 and m >= 0",
        NESTED,
        "k = int(0)\nfor i in range(n):\n    for j in range(m):\n        BODY\n        k += 1",
        FETCH,
    ),
    "a condition on data": ("", CONDITION, CONDITION, FETCH),
    "a condition on data, and no wait for the first items": (
        "",
        CONDITION,
        CONDITION,
        FETCH_WITHOUT_FIRST_WAITS,
    ),
    "steps of an argument": ("", STEPS, STEPS, FETCH),
    "max against parts": (
        "assert n >= 0 and m >= 0",
        "for k in range(tg.max(n, m)):\n    BODY",
        "for k in range(n):\n    BODY\nfor k in range(n, m):\n    BODY",
        FETCH,
    ),
    "an assert": ("assert n <= m", PLAIN, "for k in range(tg.min(n, m)):\n    BODY", FETCH),
}
WRONG = {
    "a weaker assert on a condition within others": (
        "assert not (m > 0 and m < d)",
        TWO_CONDITIONS,
        ONE_CONDITION,
        FETCH,
    ),
    "an assert on half of the remainder": ("assert n % 3 == 0", CONSECUTIVE, CONSECUTIVE, FETCH),
    "an assert on the remainder of numbers up to 1000": (
        "assert n % 6 == 0 or n > 1000",
        CONSECUTIVE,
        CONSECUTIVE,
        FETCH,
    ),
    "an assert of a disjunction, one case ignored": (
        "assert n == m or n == 7",
        PLAIN,
        "for k in range(m):\n    BODY",
        FETCH,
    ),
    "a window, with another end": (
        "",
        WINDOW.replace(" + 2", ""),
        WINDOW.replace("tg.min(j + m + 1, d)", "tg.min(j + m + 1, n)"),
        FETCH,
    ),
    "one of three, another remainder": (
        "assert n >= 0",
        STRIPS.format(d=3, r=2),
        "for k in range((n + 1) // 3):\n    BODY",
        FETCH,
    ),
    "one of three, one more at the end": (
        "assert n >= 0",
        THIRD,
        "for k in range((n + 2) // 3):\n    BODY",
        FETCH,
    ),
    "one of four, against other steps": (
        "assert n >= 0",
        STRIPS.format(d=4, r=0),
        "for q in range(0, n, 5):\n    k = q // 5\n    BODY",
        FETCH,
    ),
    "nested, one less": (SIZES, "for k in range(n * m - 1):\n    BODY", NESTED, FETCH),
    "nested, of another width": (
        "assert n >= 0 and m >= 0",
        NESTED,
        NESTED.replace("i * m", "i * (m - 1)"),
        FETCH,
    ),
    "nested, not rectangular": (
        SIZES,
        "for k in range(n * m):\n    BODY",
        NESTED.replace("range(m)", "range(tg.min(m, 21))"),
        FETCH,
    ),
    "a condition on other data": ("", CONDITION, CONDITION.replace("> m", ">= m"), FETCH),
    "a wait too late": ("", PLAIN, PLAIN, FETCH_WITHOUT_FIRST_WAITS.replace("k >= 3", "k >= 4")),
    "other steps": ("", STEPS, STEPS.replace("range(m, n, d)", "range(m, n, d + 1)"), FETCH),
    "a step of 0, which makes no iteration": (
        "assert d == 0",
        "k = int(0)\nfor q in range(m, n, d):\n    BODY\n    k += 1",
        "k = int(0)\nj = m\nwhile j > n:\n    BODY\n    k += 1\n    j += d",
        FETCH,
    ),
    "max against one part": (
        "assert n >= 0 and m >= 0",
        "for k in range(tg.max(n, m)):\n    BODY",
        PLAIN,
        FETCH,
    ),
    "max against parts, of negative numbers": (
        "",
        "for k in range(tg.max(n, m)):\n    BODY",
        "for k in range(n):\n    BODY\nfor k in range(n, m):\n    BODY",
        FETCH,
    ),
    "a weaker assert": ("assert n <= m + 1", PLAIN, "for k in range(tg.min(n, m)):\n    BODY", FETCH),
}


@sampled(2, "name", slow_except({"nested, no wait for the first items"}, RIGHT))
def test_roles_whose_loops_agree_are_proved(name: str) -> None:
    assert outcome(lowered(roles(*RIGHT[name]))) == "proved"


FAST = {
    "an assert on half of the remainder",
    "other steps",
    "a condition on other data",
    "a wait too late",
    "a step of 0, which makes no iteration",
}


@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow(every=3)) for name in WRONG]
)
def test_roles_whose_loops_disagree_are_not_proved(name: str) -> None:
    assert outcome(lowered(roles(*WRONG[name]))) != "proved"


def one_pipe_ahead(lead: int, first: int, remaining: str) -> Any:
    """A role fills one pipe `lead` items ahead of another pipe, whose remaining items it fills after the loop."""
    return kernel(f"""def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    rows = tg.tile_pipe(shape=(1, 8), dtype=float, stages=3)
    more = tg.tile_pipe(shape=(1, 8), dtype=float, stages=2)
    with tg.role("fetch", warps=1):
        count = int(0)
        for k in range(n):
            tg.tile_pipe_load(rows, x, offset=(k, 0))
            if k >= {first}:
                tg.tile_pipe_load(more, x, offset=(k, 0))
            count += 1
        for k in range({remaining}):
            tg.tile_pipe_load(more, x, offset=(k, 0))
    with tg.ws(1):
        for k in range(n):
            one = tg.tile_pipe_pop(rows)
            tg.tile_store(out, one * tg.tile_pipe_pop(more), offset=(k, 0))
""")


@sampled(3, "by", [2, 0, 1], slow=1)
def test_a_role_ahead_of_its_consumer_is_proved_up_to_the_stage_count(by: int) -> None:
    """The lead must be less than the stage count of the pipe, and the role must fill the remaining items."""
    assert outcome(lowered(one_pipe_ahead(by, by, f"tg.min({by}, count)"))) == "proved"
    assert outcome(lowered(one_pipe_ahead(by, by, f"tg.min({by}, count - 1)"))) != "proved" or by == 0
    assert outcome(lowered(one_pipe_ahead(by, by + 1, f"tg.min({by}, count)"))) != "proved"


LATE_READ = READ.replace(
    "tg.mbarrier_arrive(empty, k % 3)", "if k >= {by}:\n    tg.mbarrier_arrive(empty, (k - {by}) % 3)"
)


@pytest.mark.parametrize("by", [1, 2, 3])
def test_late_releases_are_proved_up_to_the_stage_count(by: int) -> None:
    """Stages that are released some items late, by fewer items than the ring has stages; and items that are waited for
    twice."""
    text = "def kernel(x: tg.array2d[float], out: tg.array2d[float], flags: tg.array1d[int], n: int, m: int, d: int):"
    wait = "tg.mbarrier_wait(full, k % 3, k // 3)\n"
    read = wait + LATE_READ.format(by=by)
    built_kernel = kernel(
        text + "\n" + ROLES.format(fetch=nested_in_loops(PLAIN, FETCH), read=nested_in_loops(PLAIN, read))
    )
    assert (outcome(lowered(built_kernel)) == "proved") is (by < 3)


# Guards ---------------------------------------------------------------------------------------------------------------


def test_proofs_have_guards_only_where_needed() -> None:
    """Numbers that may wrap are guarded if the proof needs their exact values."""
    assert prove(*lowered(pipe("range(n + m)", "range(n + m)")))["guards"] == []
    kinds = [kind for kind, _ in prove(*lowered(pipe("range(n - 1, -1, -1)", "range(n)")))["guards"]]
    assert kinds == ["fits"]


def test_guards_of_proofs_depend_on_launch_arguments_alone() -> None:
    """Conditions that the host cannot compute, or that the kernel does not assert, are not guards."""
    kernel, compilation = lowered(roles("assert n <= m", PLAIN, "for k in range(tg.min(n, m)):\n    BODY"))
    certificate = prove(kernel, compilation)
    verify(kernel, compilation, certificate)
    ((_, asserted),) = certificate["guards"]
    values = [*kernel.params]
    for op in kernel.walk():
        for region in op.regions:
            values.extend(region.args)
        values += op.results
    others = [v for v, value in enumerate(values) if str(value.type) == "bool" and v != asserted]
    loaded = [v for v, value in enumerate(values) if getattr(value.owner, "NAME", "") == "buf.view"]
    carried = [v for v, value in enumerate(values) if str(value.type) == "int32" and value.name == "k"]
    forged = [[], *([["assert", v]] for v in others), *([["fits", v]] for v in (*loaded, *carried))]
    forged += [[["other", asserted]], [["factor", -1]], [["fits", len(values)]]]
    for guards in forged:
        with pytest.raises(Rejected):
            verify(kernel, compilation, {**certificate, "guards": guards})


CHUNKS_OF_BLOCKS = """def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int, m: int, c: int, e: int):
    assert m > 0 and m < 1000000 and n >= 0 and n < 1000000
    assert c >= 0 and c < 1000 and e >= 0 and e < 1000000
    pipe = tg.tile_pipe(shape=(1, 8), dtype=float, stages=2)
    first = {first}
    last = n
    with tg.ws(0):
        for q in range(first, last):
            tg.tile_pipe_load(pipe, x, offset=(q, 0))
    with tg.ws(1):
        t = first
        while t < last:
            stop = {stop}
            for q in range(t, stop):
                tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(q, 0))
            t = {next}
"""


@pytest.mark.parametrize(
    ("first", "stop"),
    [
        ("c", "tg.min(last, t + 5)"),
        ("c", "tg.min(last, t + m)"),
        ("c * e", "tg.min(last, (t // 8 + 1) * 8)"),
        ("c", "tg.min(last, (t // m + 1) * m)"),
    ],
)
def test_items_of_a_block_walked_by_tiles_are_proved(first: str, stop: str) -> None:
    """One role walks over all items of a block, the other over tiles, the first and last of which may be partial."""
    assert outcome(lowered(kernel(CHUNKS_OF_BLOCKS.format(first=first, stop=stop, next="stop")))) == "proved"


def test_tiles_beyond_the_items_of_a_block_are_not_proved() -> None:
    built_kernel = kernel(CHUNKS_OF_BLOCKS.format(first="c", stop="(t // m + 1) * m", next="stop"))
    assert outcome(lowered(built_kernel)) != "proved"
