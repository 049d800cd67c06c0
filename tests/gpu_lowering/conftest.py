"""Makes the modules next to the tests, `agreement`, and the generators of programs importable."""

import sys
from pathlib import Path

import pytest

from tegula.passes import place_shared

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "semantics"), str(HERE.parent / "generated")]


@pytest.fixture(params=["side by side", "tight"])
def memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The allocation of buffers in shared memory: disjoint where there is room, or sharing bytes wherever possible."""
    if request.param == "tight":
        monkeypatch.setattr(place_shared, "NO_REUSE_BYTES", 0)
        monkeypatch.setattr(place_shared, "SMALL_BYTES", 0)
    return request.param
