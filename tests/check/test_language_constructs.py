"""Schedules in many constructs of the language, with faulty lines: a proved program has no fault in replays."""

from __future__ import annotations

import pytest

from support.attacks.constructs import judge_program
from support.campaigns import chunks

CAMPAIGN_SEEDS, CHUNK = range(600), 8


def wrongly_proved(seeds: range, count: int) -> list[str]:
    judgements = [(seed, *judge_program(seed, count)) for seed in seeds]
    return [f"{seed}: {name}: {why}" for seed, name, status, why in judgements if status == "wrongly proved"]


def test_schedules_with_faults_in_any_construct_are_not_proved() -> None:
    assert not wrongly_proved(range(4), 4)


@pytest.mark.parametrize("first", chunks(range(0, len(CAMPAIGN_SEEDS), CHUNK)))
def test_many_schedules_with_faults_in_any_construct_are_not_proved(first: int) -> None:
    assert not wrongly_proved(CAMPAIGN_SEEDS[first : first + CHUNK], 12)
