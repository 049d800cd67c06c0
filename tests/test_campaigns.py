"""The samples of parameter sets that runs take."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from support.campaigns import sample_parameter_sets


def sets(name: str, *counts: int) -> list[Any]:
    """The parameter sets of a test of two parameters."""
    rows, columns = counts
    return [
        SimpleNamespace(path=Path("test_a.py"), nodeid=f"test_a.py::{name}[{i}-{j}]")
        for i in range(rows)
        for j in range(columns)
    ]


def test_each_test_has_its_first_parameter_set_and_some_others() -> None:
    items = [*sets("test_one", 1, 1), *sets("test_many", 40, 3)]
    sampled = [item.nodeid for item in sample_parameter_sets(items, 3)]
    assert sampled[:2] == ["test_a.py::test_one[0-0]", "test_a.py::test_many[0-0]"]
    assert 25 <= len(sampled) <= 60
    assert {name[-2] for name in sampled[1:]} == {"0", "1", "2"}
    assert [item.nodeid for item in sample_parameter_sets(items[3:], 3)][1:] == [
        name for name in sampled if name in {item.nodeid for item in items[4:]}
    ]
    assert sample_parameter_sets(items, 1) == items
