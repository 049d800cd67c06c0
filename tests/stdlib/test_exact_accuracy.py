"""The error of every function is within its documented bound, compared with multiprecision arithmetic on random and
edge arguments.

On the CPU: tests/gpu/test_bits_of_library_functions.py compares GPUs with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from measured_errors import (
    CASES,
    DEFAULT_COUNT,
    HARD_ARGUMENTS,
    PERIODIC,
    SLOW_COUNT,
    STRIDE,
    largest_error,
    measure,
    next_to_quarters,
    sweep,
)

from support.campaigns import chunks, sampled
from support.vector_functions import VECTOR_FUNCTIONS
from tegula.stdlib import FUNCTIONS

pytestmark = pytest.mark.cpu
PAGE = Path(__file__).parents[2] / "docs" / "accuracy.md"
EXACT = {"mod", "round", "sign"}
"""Functions with exact results, which tests/gradients and tests/semantics cover."""


@pytest.mark.machine_code
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@sampled(4, "name", CASES)
def test_errors_of_functions_are_within_their_bounds(name: str, kind: Any) -> None:
    error, argument = measure(name, kind, DEFAULT_COUNT)
    assert error <= CASES[name].bounds[kind is np.float64], f"{name}{tuple(argument)}: {error:.3f} ulp"


@pytest.mark.machine_code
@pytest.mark.parametrize("count", chunks((SLOW_COUNT // 3, SLOW_COUNT)))
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", CASES)
def test_errors_over_many_arguments_are_within_their_bounds(name: str, kind: Any, count: int) -> None:
    error, argument = measure(name, kind, count, seed=2)
    assert error <= CASES[name].bounds[kind is np.float64], f"{name}{tuple(argument)}: {error:.3f} ulp"


@pytest.mark.machine_code
@pytest.mark.parametrize("stride", chunks((4 * STRIDE + 3, STRIDE)))
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.second])
def test_errors_over_every_float32_are_within_their_bounds(name: str, stride: int) -> None:
    error, argument = sweep(name, stride)
    assert error <= CASES[name].bounds[0], f"{name}({argument}): {error:.3f} ulp"


@pytest.mark.machine_code
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", HARD_ARGUMENTS)
def test_errors_at_hard_arguments_are_within_their_bounds(name: str, kind: Any) -> None:
    error, argument = largest_error(name, [np.array(HARD_ARGUMENTS[name][kind is np.float64], kind)])
    assert error <= CASES[name].bounds[kind is np.float64], f"{name}{tuple(argument)}: {error:.3f} ulp"


@pytest.mark.machine_code
@pytest.mark.slow
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", PERIODIC)
def test_errors_next_to_every_multiple_of_a_quarter_are_within_their_bounds(name: str, kind: Any) -> None:
    error, argument = largest_error(name, [next_to_quarters(kind, 1)])
    assert error <= CASES[name].bounds[kind is np.float64], f"{name}{tuple(argument)}: {error:.3f} ulp"


def test_the_accuracy_of_every_function_is_measured() -> None:
    assert {name for name in FUNCTIONS if not name.startswith("_")} == CASES.keys() | EXACT | VECTOR_FUNCTIONS


def test_the_page_of_accuracy_has_every_function() -> None:
    rows = [line.split("|") for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    table_rows = {row[1].strip(" `"): (row[3].strip(), row[5].strip()) for row in rows}
    assert table_rows == {name: tuple(f"({b:g})" for b in case.bounds) for name, case in CASES.items()}
    for _, name, single, promise32, double, promise64, _ in rows:
        assert float(single.strip(" *")) <= float(promise32.strip(" ()")), name
        assert float(double) <= float(promise64.strip(" ()")), name
