"""Generated programs: gradients agree with finite differences, and for one trip count of every second program with
derivatives in forward mode, or are refused for a listed reason. Programs with kinks are compared in forward mode only.

TEGULA_GRADIENTS sets the number of programs: 30 by default, of which three are in the default run and three among the
slow tests."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable

import pytest
from check_program import PROGRAM_REFUSALS, TRIP_COUNTS, check
from kinked_programs import KinkedProgram
from smooth_programs import SmoothProgram

import tegula as tg
from support.campaigns import chunks, rest_slow, sampled

pytestmark = pytest.mark.machine_code

PROGRAMS = int(os.environ.get("TEGULA_GRADIENTS", "30"))
DEFAULT_RUN_COUNT, SHARDS = 3, 9


def outcomes(seeds: Iterable[int]) -> Counter[str]:
    """The outcomes of programs over their trip counts; asserts that none is wrong."""
    result: Counter[str] = Counter()
    for seed in seeds:
        program = SmoothProgram(seed)
        forward = [TRIP_COUNTS[seed // 2 % len(TRIP_COUNTS)]] * (seed % 2)
        for count, verdict in check(program, forward=forward).items():
            assert not verdict.startswith("wrong"), f"seed {seed}, {count} iterations: {verdict}\n{program}"
            result[verdict] += 1
    return result


@pytest.mark.seconds(3)
@sampled(3, "seed", range(DEFAULT_RUN_COUNT))
def test_gradients_of_a_few_generated_programs_are_correct_or_refused(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tg.config, "cache_kernels", False)
    assert outcomes([seed])["right"] >= 0.8 * len(TRIP_COUNTS)


@pytest.mark.seconds(20)
@pytest.mark.parametrize("shard", chunks(range(SHARDS)))
def test_gradients_of_generated_programs_are_correct_or_refused(
    shard: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tg.config, "cache_kernels", False)
    actual = outcomes(range(DEFAULT_RUN_COUNT + shard, PROGRAMS, SHARDS))
    total = actual.total()
    refused = total - sum(actual[v] for v in ("right", "unstable", *PROGRAM_REFUSALS))
    assert refused <= 0.02 * total, actual
    assert actual["right"] >= 0.8 * total, actual


@pytest.mark.seconds(5)
@pytest.mark.parametrize(
    "program",
    [
        pytest.param(KinkedProgram(920983), id="kinked"),
        pytest.param(SmoothProgram(926546), id="smooth", marks=pytest.mark.slow),
    ],
)
def test_gradients_of_programs_of_fixed_bugs_are_correct(
    program: SmoothProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tg.config, "cache_kernels", False)
    assert set(check(program).values()) == {"right"}


@pytest.mark.seconds(5)
@pytest.mark.parametrize("iterations", rest_slow(((n,) for n in TRIP_COUNTS), lambda n: n < 17))
def test_gradients_of_loops_with_kinks_are_correct(iterations: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tg.config, "cache_kernels", False)
    program = KinkedProgram(iterations)
    assert check(program, forward=[iterations]) == {iterations: "right"}, str(program)
