"""Waits for the phase before the first one, which end only until the first phase is complete: nobody may arrive for an
item before who waits for the item a phase earlier has done so, also where that item is below 0. Each wrong variant ends
in some orders, and blocks in others."""

from __future__ import annotations

import pytest
from equivalent_rewrites import kernel
from proofs import outcome
from schedules import lowered

TEXT = """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(1, stages=S)
    with tg.role("fill", warps=1):
{fill}
    with tg.role("use", warps=1):
{use}
"""
FILL = """\
        for k in range(n):
            tg.mbarrier_wait(empty, k % S, k // S + 1)
            tg.mbarrier_arrive(full, k % S)"""
USE = """\
        for k in range(n):
            tg.mbarrier_wait(full, k % S, k // S)
            tg.mbarrier_arrive(empty, k % S)"""
FIRST_WAITS_LATE = """\
        for k in range(min(S, n)):
            tg.mbarrier_arrive(full, k % S)
        for k in range({first}, n):
            tg.mbarrier_wait(empty, k % S, k // S + 1)
            if k >= S:
                tg.mbarrier_arrive(full, k % S)"""
ONE_AHEAD = """\
        for k in range(S - 1):
            tg.mbarrier_wait(empty, k % S, k // S + 1)
        for k in range(n):
            tg.mbarrier_wait(empty, (k + S - 1) % S, (k + S - 1) // S + 1)
            tg.mbarrier_arrive(full, k % S)"""
BACK_ONE_LATE = """\
        for k in range(n):
            if k >= 1:
                tg.mbarrier_wait(full, (k - 1) % S, (k - 1) // S)
            tg.mbarrier_arrive(empty, k % S)"""
ONCE = """\
        if n > 0:
            tg.mbarrier_arrive(full, 0)
            tg.mbarrier_wait(empty, 0, 1)"""
RIGHT = {
    "in turns": (FILL, USE),
    "the first stages without waits": (FIRST_WAITS_LATE.format(first="S"), USE),
    "all waits ahead": (ONE_AHEAD, USE),
}
WRONG = {
    "one wait after the arrival": (ONCE, USE),
    "all first waits after the arrivals": (FIRST_WAITS_LATE.format(first="0"), USE),
    "the last of the first waits after the arrivals": (FIRST_WAITS_LATE.format(first="S - 1"), USE),
    "the first stage is given back unasked": (ONE_AHEAD, BACK_ONE_LATE),
}


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("name", RIGHT)
def test_first_waits_before_the_first_arrivals_are_proved(name: str, stages: int) -> None:
    fill, use = RIGHT[name]
    assert outcome(lowered(kernel(TEXT.format(fill=fill, use=use), None, stages))) == "proved"


@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("name", WRONG)
def test_first_waits_that_may_be_late_are_not_proved(name: str, stages: int) -> None:
    fill, use = WRONG[name]
    assert outcome(lowered(kernel(TEXT.format(fill=fill, use=use), None, stages))) != "proved"
