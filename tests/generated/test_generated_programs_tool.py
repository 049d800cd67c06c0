"""The tool that runs generated programs by the thousand."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.cpu
TOOL = Path(__file__).parent.parent.parent / "tools" / "generated_programs.py"


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = importlib.util.spec_from_file_location("generated_programs", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "generated_programs", module)
    spec.loader.exec_module(module)
    return module


def command(*options: object) -> list[str]:
    return [sys.executable, str(TOOL), "--jobs", "1", *map(str, options)]


def test_each_outcome_of_a_program_is_counted_and_recorded(tmp_path: Path) -> None:
    record_file = tmp_path / "outcomes.jsonl"
    tool_command = command("--first", 7, "--into", record_file)
    completed = subprocess.run([*tool_command, "--count", "2"], capture_output=True, text=True)
    assert completed.returncode == 0 and " s, 2 programs: " in completed.stdout, (
        completed.stdout + completed.stderr
    )
    with record_file.open("a") as file:
        file.write('{"seed": 8, "outc')
    completed = subprocess.run([*tool_command, "--count", "3"], capture_output=True, text=True)
    assert completed.returncode == 0 and " s, 3 programs: " in completed.stdout, (
        completed.stdout + completed.stderr
    )
    records = [json.loads(line) for line in record_file.read_text().splitlines()]
    assert [line["seed"] for line in records] == [7, 8, 9]
    assert not any(line["outcome"].startswith("failed") for line in records)


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_run_of_programs_prints_its_outcomes(
    tmp_path: Path, signal_number: signal.Signals
) -> None:
    record_file = tmp_path / "outcomes.jsonl"
    tool_command = command("--count", 10**6, "--into", record_file, "--every", 0.2)
    with subprocess.Popen(tool_command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        progress_line = next(line for line in running.stdout if " 0 programs" not in line)
        running.send_signal(signal_number)
        rest = running.communicate(timeout=30)[0]
    assert " s, " in progress_line and running.returncode == 0
    assert f" s, {len(record_file.read_text().splitlines())} programs: " in rest.splitlines()[-1]


WORKER = """
import sys, time
for line in sys.stdin:
    if int(line) == 1:
        sys.exit("no more")
    if int(line) == 3:
        time.sleep(60)
    print('outcome "failed: CUDA_ERROR"' if lost else 'outcome "ran"', flush=True)
    lost = lost or int(line) == 5
"""


def test_a_failing_program_does_not_stop_other_programs(
    tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "worker.py"
    fake.write_text(f"lost = False{WORKER}")
    monkeypatch.setattr(tool, "__file__", str(fake))
    tally = tool.OutcomeTally()
    tool.run_worker(iter(range(10)), tally, tool.Worker([], limit=1.0), threading.Event())
    assert tally.outcomes == {"ran": 7, "failed": 3} and tally.finished == set(range(10))
    assert "no more" in tally.failures[1] and "more than 1 s" in tally.failures[3]
    assert "CUDA_ERROR" in tally.failures[6]
