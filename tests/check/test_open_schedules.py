"""Correct schedules that the prover does not prove yet, one of each kind, as users write them."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "open_schedules"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.py")))
def test_an_open_schedule_is_not_proved_yet(name: str) -> None:
    """A schedule that is proved belongs into the tests of the prover, and a schedule that is refuted shows a fault."""
    assert runpy.run_path(str(FOLDER / f"{name}.py"))[name].check().status == "unproved"
