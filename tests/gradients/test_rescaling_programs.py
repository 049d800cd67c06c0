"""Gradients of generated loops that rescale sums while a maximum grows, and of similar loops, agree with finite
differences of the same text run by NumPy, or are refused."""

from __future__ import annotations

from collections import Counter

import pytest
from check_rescaling import check
from rescaling_programs import RescalingProgram

pytestmark = pytest.mark.machine_code


def outcomes(seeds: range) -> Counter[str]:
    """The outcomes of the gradients of programs; asserts that none is wrong."""
    result = Counter[str]()
    for seed in seeds:
        program = RescalingProgram(seed)
        verdict = check(program.text, program.threads, program.count, seed)
        assert not verdict.startswith("wrong"), f"seed {seed}: {verdict}\n{program}"
        result[verdict.split(":")[0]] += 1
    return result


@pytest.mark.seconds(3)
def test_gradients_of_a_few_loops_that_rescale_sums_are_correct() -> None:
    assert outcomes(range(5000, 5003))["right"] >= 1


@pytest.mark.campaign
@pytest.mark.seconds(30)
@pytest.mark.parametrize("chunk", range(40))
def test_gradients_of_loops_that_rescale_sums_are_correct_or_refused(chunk: int) -> None:
    assert outcomes(range(2000 + 20 * chunk, 2020 + 20 * chunk))["right"] >= 5
