"""Correct schedules as users write them, one of each kind: those that are proved, and those that are not proved yet."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

OPEN, PROVED = (Path(__file__).parent / name for name in ("open_schedules", "proved_schedules"))


def status(path: Path) -> str:
    return runpy.run_path(str(path))[path.stem].check().status


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(OPEN.glob("*.py")), ids=lambda path: path.stem)
def test_an_open_schedule_is_not_proved_yet(path: Path) -> None:
    """A schedule that is proved belongs to the proved ones, and a schedule that is refuted shows a fault."""
    assert status(path) == "unproved"


@pytest.mark.parametrize("path", sorted(PROVED.glob("*.py")), ids=lambda path: path.stem)
def test_a_schedule_of_users_is_proved(path: Path) -> None:
    assert status(path) == "proved"
