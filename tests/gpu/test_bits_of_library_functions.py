"""Every library function gives the same bits on a GPU as on the CPU, where errors are measured; the arguments are
shared with tests/stdlib/test_exact_accuracy.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from agreement import assert_same_bits
from measured_errors import (
    BOUNDED_ARGUMENTS,
    CASES,
    DEFAULT_COUNT,
    HARD_ARGUMENTS,
    LIMITS,
    SLOW_COUNT,
    STRIDE,
    applied,
    numbers,
    operands,
)

import tegula as tg


def compare(name: str, *operand_lists: list[np.ndarray], expression: str = "") -> None:
    """Compare a function, or the expression `expression`, on lists of operands."""
    for arguments in operand_lists:
        with tg.ScopedDevice("cpu"):
            expected = applied(name, arguments, expression)
        with tg.ScopedDevice("cuda:0"):
            result = applied(name, arguments, expression)
        assert_same_bits(result, expected, name)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", CASES)
def test_functions_of_random_arguments_have_the_bits_of_the_cpu(name: str, kind: Any) -> None:
    compare(name, operands(name, kind, DEFAULT_COUNT), operands(name, kind, SLOW_COUNT, seed=2))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", HARD_ARGUMENTS)
def test_functions_of_hard_arguments_have_the_bits_of_the_cpu(name: str, kind: Any) -> None:
    compare(name, [np.array(HARD_ARGUMENTS[name][kind is np.float64], kind)])


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.second])
def test_functions_of_every_float32_have_the_bits_of_the_cpu(name: str) -> None:
    compare(name, *([x] for x in numbers(STRIDE)))


@pytest.mark.parametrize("expression", BOUNDED_ARGUMENTS)
@pytest.mark.parametrize("name", LIMITS)
def test_functions_of_bounded_arguments_have_the_bits_of_the_cpu(name: str, expression: str) -> None:
    compare(name, *([x] for x in numbers(STRIDE)), expression=expression.format(limit=LIMITS[name]))
