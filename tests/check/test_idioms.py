"""Schedules that are right, in the ways that people write them: each passes, also with other numbers of stages."""

from __future__ import annotations

import pytest
from disguises import kernel
from idioms import RIGHT


@pytest.mark.parametrize("stages", [1, 2, 4])
@pytest.mark.parametrize("name", RIGHT)
def test_idioms(name: str, stages: int) -> None:
    if stages == 1 and any(word in name for word in ("ahead", "late")):
        stages = 3  # they hold one stage while they work on another
    found = kernel(RIGHT[name], None, stages).check()
    assert found.passed, f"{found.kind}: {found.message}{found.where}"


SPOILED: dict[str, tuple[str, str, str]] = {
    "the rest is left out": ("whole rings, and the rest behind them", "range(n % S)", "range(0)"),
    "the rest of another number": (
        "whole rings, and the rest behind them",
        "range(n % S)",
        "range(n % (S + 1))",
    ),
    "fewer whole rings far away": (
        "whole rings, and the rest behind them",
        "range(n // S)",
        "range(tg.min(n // S, 900))",
    ),
    "more rings than there are": ("whole rings, and the rest behind them", "range(n // S)", "range(n // 2)"),
    "nobody takes every third item": ("two roles take turns over one ring", ", n, 2)", ", n, 3)"),
    "one stops far away": (
        "two roles take turns over one ring",
        "range(1, n, 2)",
        "range(1, tg.min(n, 900), 2)",
    ),
    "a group ends elsewhere": (
        "groups of rows whose ends an array holds",
        "            start = end\n    with",
        "            start = end + 4\n    with",
    ),
    "a group begins one row later": (
        "groups of rows whose ends an array holds",
        "range(start // 4, end // 4):\n                tg.tile_store",
        "range((start + 1) // 4, end // 4):\n                tg.tile_store",
    ),
    "groups of another array": (
        "groups of rows whose ends an array holds",
        "end = ends[g]\n            for i in range(start // 4, end // 4):\n                tg.tile_pipe_load",
        "end = ends[g + 1]\n            for i in range(start // 4, end // 4):\n                tg.tile_pipe_load",
    ),
    "only 900 groups": (
        "groups of rows whose ends an array holds",
        "with tg.ws(1):\n        start = int(0)\n        for g in range(groups)",
        "with tg.ws(1):\n        start = int(0)\n        for g in range(tg.min(groups, 900))",
    ),
    "every third item is for the second": ("items go to two pipes in turn", "k % 2 == 0", "k % 3 != 0"),
    "the turns change": ("items go to two pipes in turn", "k % 2 == 0", "k % 2 == 1"),
    "turns end far away": ("items go to two pipes in turn", "range(0, n, 2)", "range(0, tg.min(n, 900), 2)"),
    "one more of the fourth ones": ("every fourth item goes to another pipe", "n // 4", "(n + 3) // 4"),
    "both take the same": ("two roles take turns over one ring", "range(1, n, 2)", "range(0, n, 2)"),
}


@pytest.mark.parametrize("name", SPOILED)
def test_what_looks_like_them_does_not_pass(name: str) -> None:
    idiom, old, new = SPOILED[name]
    assert old in RIGHT[idiom]
    found = kernel(RIGHT[idiom].replace(old, new), None, 3).check()
    assert not found.passed
    assert found.status == ("unproved" if "far away" in name else "refuted"), found.message
