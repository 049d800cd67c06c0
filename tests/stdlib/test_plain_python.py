"""The library's functions run as plain Python on NumPy arrays give the bits that compiled kernels give.

Compilation therefore preserves the results; in particular, the compiler contracts no multiplication and addition."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from measured_errors import KINDS, applied, arguments
from numpy_primitives import install

from support.campaigns import sampled
from support.vector_functions import VECTOR_FUNCTIONS
from tegula.stdlib import FUNCTIONS

pytestmark = pytest.mark.machine_code

RANGES = ((-1.0, 1.0), (-20.0, 20.0), (0.0, 1e5), (-760.0, 760.0))
LOOP_FREE = [
    name for name in FUNCTIONS if not name.startswith("_") and name not in ("mod", *VECTOR_FUNCTIONS)
]
"""All functions except one with a loop, whose condition does not work for arrays, and functions of vectors."""
BRANCHING = ("sin", "cos", "tan")
"""Functions with a path for large numbers, which processes one element at a time."""


def evaluated_in_python(name: str, operands: list[np.ndarray]) -> np.ndarray:
    function = getattr(install(), name)
    if name not in BRANCHING:
        return function(*operands)
    return np.concatenate([function(*[x[k : k + 1] for x in operands]) for k in range(len(operands[0]))])


@pytest.mark.parametrize("kind", KINDS)
@sampled(3, "name", LOOP_FREE)
def test_library_functions_in_python_have_the_bits_of_kernels(name: str, kind: Any) -> None:
    count = len(inspect.signature(FUNCTIONS[name][0]).parameters)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 5e-324], np.float64).astype(kind)
    operands = [np.concatenate([arguments(RANGES, kind, 900, seed)[:600], special]) for seed in range(count)]
    with np.errstate(all="ignore"):
        python_result = evaluated_in_python(name, operands)
    compiled = applied(name, operands)
    is_equal = (python_result.view(KINDS[kind][1]) == compiled.view(KINDS[kind][1])) | (
        np.isnan(python_result) & np.isnan(compiled)
    )
    assert is_equal.all(), [x[~is_equal][:3] for x in operands]
