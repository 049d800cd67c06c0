"""Kernels with automatic schedules have the results of the kernels without schedules."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from role_rewriting import assert_equal_results, interpreted, results_on_cpu, results_without_roles, rewritten
from scheduled_kernels import LAUNCHES, Launch

from tegula.passes.specialise import Choice

NAMES = [f"{launch.name}-{launch.grid}" for launch in LAUNCHES]


@cache
def expected_results(index: int) -> list[Any]:
    return results_without_roles(LAUNCHES[index])


@pytest.mark.parametrize("index", range(len(LAUNCHES)), ids=NAMES)
@pytest.mark.parametrize("persistent", [True, False], ids=["persistent", "one tile a block"])
def test_automatic_schedules_change_no_result_in_the_interpreter(index: int, persistent: bool) -> None:
    launch: Launch = LAUNCHES[index]
    kernel, schedule = rewritten(launch, Choice(persistent=persistent))
    assert schedule.plan is not None, schedule.reason
    assert_equal_results(interpreted(kernel, launch), expected_results(index), launch.exact)


@pytest.mark.machine_code
@pytest.mark.parametrize("index", range(len(LAUNCHES)), ids=NAMES)
def test_automatic_schedules_change_no_result_on_the_cpu(index: int) -> None:
    launch = LAUNCHES[index]
    kernel, schedule = rewritten(launch, Choice(persistent=False))
    assert schedule.plan is not None, schedule.reason
    assert_equal_results(results_on_cpu(kernel, launch), expected_results(index), launch.exact)
