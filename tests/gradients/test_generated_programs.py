"""Generated programs: gradients agree with finite differences, and with derivatives in forward mode for one trip count
of every second one, or are refused for a listed reason. Programs with kinks are held against forward mode alone.

TEGULA_GRADIENTS sets the number of programs (30, half of them among the slow tests)."""

from __future__ import annotations

import os
from collections import Counter

import pytest
from check_program import OF_PROGRAMS, TRIP_COUNTS, check
from kinked_programs import KinkedProgram
from smooth_programs import SmoothProgram

import tegula as tg

pytestmark = pytest.mark.machine_code

PROGRAMS = int(os.environ.get("TEGULA_GRADIENTS", "30"))
SHARDS = 6


SLOW = range(3, SHARDS)


@pytest.mark.seconds(20)
@pytest.mark.parametrize(
    "shard", [pytest.param(k, marks=[pytest.mark.slow] if k in SLOW else []) for k in range(SHARDS)]
)
def test_gradients_are_right_or_refused(shard: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tg.config, "cache_kernels", False)
    outcomes: Counter[str] = Counter()
    for seed in range(shard, PROGRAMS, SHARDS):
        program = SmoothProgram(seed)
        forward = [TRIP_COUNTS[seed // 2 % len(TRIP_COUNTS)]] * (seed % 2)
        for count, verdict in check(program, forward=forward).items():
            assert not verdict.startswith("wrong"), f"seed {seed}, {count} rounds: {verdict}\n{program}"
            outcomes[verdict] += 1
    total = outcomes.total()
    refused = total - sum(outcomes[v] for v in ("right", "unstable", *OF_PROGRAMS))
    assert refused <= 0.02 * total, outcomes
    assert outcomes["right"] >= 0.8 * total, outcomes


@pytest.mark.seconds(5)
@pytest.mark.parametrize("program", [KinkedProgram(920983), SmoothProgram(926546)], ids=["kinked", "smooth"])
def test_programs_that_went_wrong(program: SmoothProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tg.config, "cache_kernels", False)
    assert set(check(program).values()) == {"right"}


@pytest.mark.seconds(5)
@pytest.mark.parametrize("rounds", TRIP_COUNTS)
def test_gradients_across_kinks(rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tg.config, "cache_kernels", False)
    program = KinkedProgram(rounds)
    assert check(program, forward=[rounds]) == {rounds: "right"}, str(program)
