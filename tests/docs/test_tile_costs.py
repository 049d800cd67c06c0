"""Every tile function is measured against a copy, and what is slow says why."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from benchmarks.tile_ops import BLOCK, CASES, NO_DATA, PATH, REASONS, SLOW, arguments, functions, kernel_of

import tegula as tg

TOOL = Path(__file__).parents[2] / "tools" / "tile_costs_page.py"


def page_tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tile_costs_page", TOOL)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_every_function_has_a_case_or_moves_no_data() -> None:
    assert CASES.keys() | NO_DATA.keys() == {*functions()} and not CASES.keys() & NO_DATA.keys()


def test_slow_functions_say_why() -> None:
    rows = json.loads(PATH.read_text())
    slow = {name for name in CASES if rows[name]["cpu"] > SLOW}
    assert slow <= REASONS.keys() <= CASES.keys(), slow - REASONS.keys()


def test_the_page_is_what_was_measured() -> None:
    tool = page_tool()
    assert tool.PAGE.read_text() == tool.page()


@pytest.mark.machine_code
@pytest.mark.parametrize("name", ["tile_map", "tile_concat"])
def test_a_case_computes_what_it_says(name: str) -> None:
    args = arguments(CASES[name], 3)
    tg.launch_tiled(kernel_of(CASES[name]), 3, inputs=args, block_dim=BLOCK)
    *given, made = (a.numpy() for a in args)
    want = given[0] * 2 if name == "tile_map" else np.concatenate(given, 1)
    np.testing.assert_array_equal(made, want)
