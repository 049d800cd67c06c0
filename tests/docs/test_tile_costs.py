"""Every tile function is measured against a copy, and slow functions have a reason."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from benchmarks.tile_ops import BLOCK, CASES, NO_DATA, PATH, REASONS, arguments, functions, is_slow, kernel_of

import tegula as tg

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "tile_costs.md"


def test_tile_functions_are_measured_once_or_move_no_data() -> None:
    assert CASES.keys() | NO_DATA.keys() == {*functions()} and not CASES.keys() & NO_DATA.keys()
    assert CASES.keys() == json.loads(PATH.read_text()).keys()


def test_slow_tile_functions_have_a_reason() -> None:
    rows = json.loads(PATH.read_text())
    slow = {name for name, row in rows.items() if is_slow(row)}
    assert slow <= REASONS.keys() <= CASES.keys(), slow - REASONS.keys()


def test_the_page_of_tiles_has_the_measured_times() -> None:
    rows = [line.split("|") for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    cells = {row[1].strip(" `"): (row[2].strip(), row[5].strip()) for row in rows}
    for name, row in json.loads(PATH.read_text()).items():
        assert cells[name] == (f"{row['cpu']:.1f}", REASONS[name] if is_slow(row) else "")


@pytest.mark.machine_code
@pytest.mark.parametrize("name", ["tile_map", "tile_concat"])
def test_each_measured_case_computes_its_formula(name: str) -> None:
    args = arguments(CASES[name], 3)
    tg.launch_tiled(kernel_of(CASES[name]), 3, inputs=args, block_dim=BLOCK)
    *inputs, result = (a.numpy() for a in args)
    expected = inputs[0] * 2 if name == "tile_map" else np.concatenate(inputs, 1)
    np.testing.assert_array_equal(result, expected)
