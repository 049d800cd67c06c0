"""The order of element accesses: generated programs either match a model that executes statements in order, or are
refused. They run in the interpreter, on the device, and lowered to the threads of a GPU block, without data races."""

from __future__ import annotations

from collections import Counter

import pytest
from lane_programs import LaneProgram
from run_lane_program import compare_with_model, generated

import tegula as tg
from support.campaigns import chunks


def outcome(seed: int) -> str:
    program = generated(seed)
    try:
        return compare_with_model(program)
    except Exception:
        print(f"seed {seed}\n{program}")
        raise


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tg.config, "cache_kernels", False)


@pytest.mark.machine_code
@pytest.mark.parametrize("seed", [3, 14])
def test_accesses_of_generated_programs_are_in_statement_order(seed: int) -> None:
    assert outcome(seed) == "ran"


@pytest.mark.machine_code
@pytest.mark.seconds(30)
@pytest.mark.parametrize("chunk", chunks(range(150)))
def test_accesses_of_many_generated_programs_are_in_statement_order(chunk: int) -> None:
    outcomes = Counter(outcome(seed) for seed in range(1000 + 33 * chunk, 1033 + 33 * chunk))
    assert outcomes["ran"] >= 10, outcomes


def is_order_independent(program: LaneProgram) -> bool:
    """Whether the result is the same if the first of several writing threads writes last."""
    return bool((program.run_model(reverse_lanes=True)[0] == program.expected).all())


@pytest.mark.cpu
def test_some_generated_programs_do_not_depend_on_the_last_writing_thread() -> None:
    """GPUs run only these programs."""
    assert all(is_order_independent(LaneProgram(seed, deterministic=True)) for seed in range(40))
    assert not all(is_order_independent(LaneProgram(seed)) for seed in range(40))
