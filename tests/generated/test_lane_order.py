"""The order of element accesses: generated programs do what a model says that knows only the order of statements, or
are refused; on the interpreter, on the device, and lowered to the threads of a GPU block, without data races."""

from __future__ import annotations

from collections import Counter

import pytest
from lane_programs import LaneProgram
from run_lane_program import compare_with_model

import tegula as tg


def outcome(seed: int) -> str:
    program = LaneProgram(seed)
    try:
        return compare_with_model(program)
    except Exception:
        print(f"seed {seed}\n{program}")
        raise


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tg.config, "cache_kernels", False)


@pytest.mark.parametrize("seed", [3, 14])
def test_accesses_are_in_the_order_of_statements(seed: int) -> None:
    assert outcome(seed) == "ran"


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(50))
def test_many_accesses_are_in_the_order_of_statements(chunk: int) -> None:
    outcomes = Counter(outcome(seed) for seed in range(1000 + 100 * chunk, 1100 + 100 * chunk))
    assert outcomes["ran"] >= 30, outcomes
