"""Every function keeps its promised error, against multiprecision arithmetic, over random and edge arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from measured import CASES, largest_error, measure, sweep

from tegula.stdlib import FUNCTIONS

PAGE = Path(__file__).parents[2] / "docs" / "accuracy.md"
EXACT = {"mod", "round", "sign"}
WORST: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "exp": ((-5.1680274, 16.3178825), (0.35837270876317895,)),
    "log": ((1.3982705, 0.69967180), (0.6290095269021256,)),
    "sin": ((59593164.0,), (-0.7997981573475374,)),
    "tan": ((6.703174451449739e34, 2.3977228737550746e18), (9.232298414492164e157,)),
    "atan": ((0.4435819, -0.43404886), (-0.4981853617702809,)),
    "tanh": ((-0.62892711, 0.62711590), (0.6395125297993229,)),
    "erfc": ((0.55113655, -0.43964866), (3.2763323263525344, 0.5001906808085379)),
    "erfinv": (
        (-0.033034340, 0.13897336),
        (0.07021472253418362, 0.9952323860237174, 0.9951870593610326, 0.9999999719508067),
    ),
    "degrees": ((2.355274432867866e-40,), (6.552436000461066e-309,)),
}
"""Arguments, for float32 and float64, that longer searches found to be the hardest, or once beyond the promise."""


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", CASES)
def test_error(name: str, kind: Any) -> None:
    error, at = measure(name, kind, 2500)
    assert error <= CASES[name].bounds[kind is np.float64], f"{name}{tuple(at)}: {error:.3f} ulp"


@pytest.mark.slow
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", CASES)
def test_error_over_many_arguments(name: str, kind: Any) -> None:
    error, at = measure(name, kind, 30_000, seed=2)
    assert error <= CASES[name].bounds[kind is np.float64], f"{name}{tuple(at)}: {error:.3f} ulp"


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.second])
def test_error_over_the_whole_of_float32(name: str) -> None:
    error, at = sweep(name, 509)
    assert error <= CASES[name].bounds[0], f"{name}({at}): {error:.3f} ulp"


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", WORST)
def test_error_at_hard_arguments(name: str, kind: Any) -> None:
    error, at = largest_error(name, [np.array(WORST[name][kind is np.float64], kind)])
    assert error <= CASES[name].bounds[kind is np.float64], f"{name}{tuple(at)}: {error:.3f} ulp"


def test_every_function_is_measured() -> None:
    assert {name for name in FUNCTIONS if not name.startswith("_")} == CASES.keys() | EXACT


def test_page_has_the_promises_of_every_function() -> None:
    rows = [line.split("|") for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    shown = {row[1].strip(" `"): (row[3].strip(), row[5].strip()) for row in rows}
    assert shown == {name: tuple(f"({b:g})" for b in case.bounds) for name, case in CASES.items()}
    for _, name, single, promise32, double, promise64, _ in rows:
        assert float(single) <= float(promise32.strip(" ()")), name
        assert float(double) <= float(promise64.strip(" ()")), name
