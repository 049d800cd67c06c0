"""Recorded work that depends on an element of an array, and functions of other tile languages that query launches."""

from __future__ import annotations

import os

import numpy as np
import pytest
from simulated_driver import SimulatedDriver

import tegula as tg


@tg.kernel
def halved(n: tg.array[int], a: tg.array[float]):
    n[0] = n[0] // 2
    a[0] = a[0] + 1.0


@pytest.mark.machine_code
def test_work_is_repeated_while_an_element_is_not_zero() -> None:
    n, a = tg.array([37]), tg.zeros(1)
    tg.capture_while(n, lambda out: tg.launch(halved, 1, inputs=[n, out]), out=a)
    assert n.item() == 0 and a.item() == 6.0


def test_an_element_selects_the_recorded_work() -> None:
    done: list[str] = []
    for number in (3, 0):
        condition = tg.array([number])
        tg.capture_if(
            condition, lambda word: done.append(word), lambda word: done.append("not " + word), word="so"
        )
        tg.capture_if(condition, on_false=lambda: done.append("only where 0"))
    assert done == ["so", "not so", "only where 0"]


@pytest.mark.parametrize("condition", [1, np.ones(1, np.int32), tg.ones(1), tg.zeros(2, dtype=int)])
def test_conditions_of_recorded_work_are_one_integer(condition: object) -> None:
    for run in (lambda: tg.capture_if(condition), lambda: tg.capture_while(condition, lambda: None)):
        with pytest.raises(TypeError, match="must be an array of one int32, got"):
            run()
    with pytest.raises(TypeError, match="expected a function or a graph, got str"):
        tg.capture_if(tg.array([1]), "work")


def test_recorded_work_cannot_depend_on_elements(simulated: SimulatedDriver) -> None:
    condition = tg.zeros(1, dtype=int, device="cuda:0")
    tg.capture_if(condition, lambda: None)
    with tg.ScopedCapture("cuda:0"), pytest.raises(tg.LaunchError, match="a graph has no branches or loops"):
        tg.capture_while(condition, lambda: None)


def test_the_level_of_a_log_is_restored() -> None:
    original_level = tg.config.log_level
    with tg.ScopedLogLevel(tg.LOG_ERROR):
        assert tg.config.log_level == tg.LOG_ERROR
    assert tg.config.log_level == original_level
    with pytest.raises(ValueError, match="expected a level such as tg.LOG_WARNING, got 5"):
        tg.ScopedLogLevel(5)


def test_suggested_sizes_equal_the_sizes_of_launches() -> None:
    assert tg.get_suggested_block_size(halved, "cpu") == (256, os.cpu_count())
    with pytest.raises(tg.LaunchError, match="expected a kernel"):
        tg.get_suggested_block_size(len)
