"""Schedules that are right, in the ways that people write them: each passes, also with other numbers of stages."""

from __future__ import annotations

import pytest
from disguises import kernel
from idioms import RIGHT, SPOILED


@pytest.mark.parametrize("stages", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 4))])
@pytest.mark.parametrize("name", RIGHT)
def test_idioms(name: str, stages: int) -> None:
    if stages == 1 and any(word in name for word in ("ahead", "late")):
        stages = 3  # they hold one stage while they work on another
    found = kernel(RIGHT[name], None, stages).check()
    assert found.passed, f"{found.kind}: {found.message}{found.where}"


@pytest.mark.parametrize("name", SPOILED)
def test_what_looks_like_them_does_not_pass(name: str) -> None:
    idiom, old, new = SPOILED[name]
    assert old in RIGHT[idiom]
    found = kernel(RIGHT[idiom].replace(old, new), None, 3).check()
    assert found.status == "refuted", found.message
