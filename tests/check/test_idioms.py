"""Schedules that are right, in the ways that people write them: each is proved, also with other numbers of stages."""

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
    assert found.proved, f"{found.kind}: {found.message}{found.where}"
