"""Compositions of roles with faulty lines: a proved program has no fault in replays."""

from __future__ import annotations

import pytest

import tegula as tg
from support.attacks import judge
from support.attacks.compositions import FAMILIES, composition, fault
from support.attacks.judge import proved
from support.campaigns import chunks

CAMPAIGN_SEEDS, CHUNK = range(300), 6
NOT_PROVED = {"changed in place"}
"""The families whose correct programs have no proof."""


def wrongly_proved(seed: int, count: int) -> str:
    """The fault of a composition that the checker proves; "" for a composition without a fault or a proof."""
    text, name = composition(seed)
    try:
        kernel, compilation = judge.lowered(judge.kernel_of(text))
    except tg.CompileError:
        return ""
    failure = fault(text, kernel, compilation, count) if proved(kernel, compilation) else ""
    return f"{seed}: {name}: {failure}\n{text}" if failure and "unknown" not in failure else ""


def test_correct_compositions_of_roles_are_proved_and_replay_without_faults() -> None:
    """Each family has a program without faults that is proved, and whose replay has no fault."""
    unproved = set(FAMILIES) - NOT_PROVED
    for seed in range(40):
        text, name = composition(seed, wrong=False)
        family = name.partition(",")[0]
        if family in unproved:
            kernel, compilation = judge.lowered(judge.kernel_of(text))
            if proved(kernel, compilation):
                assert not fault(text, kernel, compilation, 2)
                unproved.remove(family)
    assert not unproved


def test_wrong_compositions_of_roles_are_not_proved() -> None:
    faults = [wrongly_proved(seed, 4) for seed in range(6)]
    assert not any(faults), "\n".join(faults)


@pytest.mark.parametrize("first", chunks(range(0, len(CAMPAIGN_SEEDS), CHUNK)))
def test_many_wrong_compositions_of_roles_are_not_proved(first: int) -> None:
    faults = [wrongly_proved(seed, 20) for seed in CAMPAIGN_SEEDS[first : first + CHUNK]]
    assert not any(faults), "\n".join(faults)
