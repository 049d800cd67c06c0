"""The tool that runs generated programs by the thousand."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.cpu
TOOL = Path(__file__).parent.parent.parent / "tools" / "generated_programs.py"


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = importlib.util.spec_from_file_location("generated_programs", TOOL)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "generated_programs", made)
    spec.loader.exec_module(made)
    return made


def test_programs_are_counted(tmp_path: Path) -> None:
    into = tmp_path / "found.json"
    command = [sys.executable, str(TOOL), "--count", "3", "--first", "7", "--jobs", "1", "--into", str(into)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(into.read_text())
    assert sum(found["outcomes"].values()) == 3 and not found["failures"]


DYING = """
import sys
for line in sys.stdin:
    if int(line) == 1:
        sys.exit("no more")
    print('outcome "ran"', flush=True)
"""


def test_a_process_that_dies_has_failed_at_its_program(
    tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dying = tmp_path / "dying.py"
    dying.write_text(DYING)
    monkeypatch.setattr(tool, "__file__", str(dying))
    tally = tool.Tally()
    tool.employ(iter(range(4)), tally, [], float("inf"))
    assert tally.outcomes == {"ran": 3, "failed": 1}
    assert "no more" in tally.failures[1] and list(tally.failures) == [1]
