"""What goes wrong after many rounds, or in launches with large numbers, is not taken for right."""

from __future__ import annotations

import pytest
from disguises import kernel

FETCH = """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int, m: int, flags: tg.array1d[int]):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.ws(0):
        if tg.elect():
            for k in range(n):
                s = {filled}
                tg.mbarrier_wait(empty, s, {room})
                tg.mbarrier_expect_bytes(full, s, N * 4)
                tg.tile_load_async(x, ring[s], (k, 0), full, s)"""
RING = (
    FETCH
    + """
    with tg.ws(1):
        last = int(0)
        for k in range(n):
            s = {read}
            tg.mbarrier_wait(full, s, {phase})
            tg.tile_store(out, ring[s] * 2.0, offset=(k, 0))
            if {fenced}:
                tg.fence_async()
            tg.mbarrier_arrive(empty, s)
            last = flags[k]"""
)
RIGHT = {
    "filled": "k % S",
    "room": "k // S & 1 ^ 1",
    "read": "k % S",
    "phase": "k // S & 1",
    "fenced": "n >= 0",
}
"""The parts of a ring that is right."""
WRONG: dict[str, dict[str, str]] = {
    "a phase that stays": {"phase": "tg.min(k, 50) // S & 1"},
    "a phase of the filling role that stays": {"room": "tg.min(k, 50) // S & 1 ^ 1"},
    "a stage that stays": {"filled": "tg.min(k, 50) % S", "read": "tg.min(k, 50) % S"},
    "a fence that is left out once": {"fenced": "k != 50"},
    "a fence that is left out at the end": {"fenced": "n - k != 40"},
    "a fence that is left out in the middle": {"fenced": "k != m + 40"},
    "a fence that is left out in long launches": {"fenced": "n < 50"},
    "a phase that turns in long launches": {"phase": "(k // S & 1) ^ (n // 50)"},
    "a phase that turns with a large argument": {"phase": "(k // S & 1) ^ (m // 50)"},
    "a phase that turns where an argument is large": {"phase": "(k // S & 1) ^ int(m > 50)"},
    "a stage that an argument moves": {"read": "(k + m - 1) % S"},
    "a stage that a large argument moves": {"read": "(k + m // 50) % S"},
    "a stage that the larger of two numbers moves": {"read": "(k + tg.max(m, 50) - 50) % S"},
    "a phase that turns slowly": {"phase": "(k // S & 1) ^ (k >> 7 & 1)"},
    "a phase that turns with two counters": {"phase": "k // S + k // 64 & 1"},
    "a phase that turns when a slow counter is large": {"phase": "(k // S & 1) ^ int(k // 20 * 3 > 25)"},
    "a fence where two elements are alike": {"fenced": "k == 0 or flags[k] == last"},
    "a fence where an element is not 0": {"fenced": "flags[k] != 0"},
    "stages of another cycle": {"filled": "k % 63 % S", "read": "k % 63 % S"},
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_far_away_is_refuted(name: str) -> None:
    verdict = kernel(RING.format(**{**RIGHT, **WRONG[name]}), None, 2).check()
    assert verdict.status == "refuted", verdict.message


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"filled": "k % 62 % S", "read": "k % 62 % S"},
        {"read": "(k + m - m) % S"},
        {"phase": "(k // S & 1) ^ (m & 1) ^ (m & 1)"},
        {"read": "k & 1", "phase": "k >> 1 & 1"},
    ],
)
def test_right_far_away_is_proved(parts: dict[str, str]) -> None:
    verdict = kernel(RING.format(**{**RIGHT, **parts}), None, 2).check()
    assert verdict.passed, verdict.message


@pytest.mark.parametrize(
    "parts",
    [
        {"phase": "(k // S & 1) ^ (k * k // 4096 & 1)"},
        {"phase": "(k // S & 1) ^ (k // (m + 100) & 1)"},
        {"fenced": "n * k != 3000"},
        {"fenced": "k != 50000"},
    ],
)
def test_what_is_too_far_away_is_not_proved(parts: dict[str, str]) -> None:
    verdict = kernel(RING.format(**{**RIGHT, **parts}), None, 2).check()
    assert (verdict.status, verdict.kind) == ("unproved", "far")


COUNTED = (
    FETCH
    + """
    with tg.ws(1):
        s = 0
        phase = 0
        wraps = 0
        for k in range(n):
            tg.mbarrier_wait(full, s, phase)
            tg.tile_store(out, ring[s] * 2.0, offset=(k, 0))
            if {fenced}:
                tg.fence_async()
            tg.mbarrier_arrive(empty, s)
            s += 1
            {once}
                s = 0
                phase ^= 1
                wraps += 1"""
)


@pytest.mark.parametrize(
    "fenced", ["wraps != 3", "wraps != 4", "wraps < 5", "wraps % 5 != 4", "wraps + k != 12"]
)
@pytest.mark.parametrize("once", ["if s == S:", "if k % S == S - 1:"])
def test_a_number_that_is_counted_slowly_is_followed(once: str, fenced: str) -> None:
    verdict = kernel(COUNTED.format(**{**RIGHT, "once": once, "fenced": fenced}), None, 2).check()
    assert verdict.status == "refuted", verdict.message


@pytest.mark.parametrize("fenced", ["wraps >= 0", "wraps != -1", "k >= 0"])
def test_a_number_that_is_counted_slowly_may_decide(fenced: str) -> None:
    verdict = kernel(COUNTED.format(**{**RIGHT, "once": "if s == S:", "fenced": fenced}), None, 2).check()
    assert verdict.passed, verdict.message


@pytest.mark.parametrize(("fenced", "right"), [("met != 3", False), ("met != 9", False), ("met >= 0", True)])
def test_a_number_that_elements_count_is_followed(fenced: str, right: bool) -> None:
    text = RING.replace("last = int(0)", "met = int(0)")
    text = text.replace("last = flags[k]", "if flags[k] != 0:\n                met += 1")
    found = kernel(text.format(**{**RIGHT, "fenced": fenced}), None, 2).check()
    assert found.passed if right else found.status == "refuted"
