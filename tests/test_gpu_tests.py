"""tools/gpu_tests.py: if tests crash or hang their process, all others run, and each test has one result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TOOL = Path(__file__).parent.parent / "tools" / "gpu_tests.py"
WITHOUT_PLUGINS = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""The environment of processes that need no plugin but the tool's, and start faster without others."""

FILES = {
    "test_also.py": "@pytest.mark.seconds(0)\ndef test_one(): pass",
    "test_good.py": """
import pytest
@pytest.mark.parametrize("k", range(5))
def test_one(k): pass
def test_left_out(): pytest.skip("no such thing here")
""",
    "test_wrong.py": """
import pytest
@pytest.mark.parametrize("k", range(3))
def test_same(k): assert False, f"element {k} is 0.5{k}"
def test_other(): raise KeyError("b")
def test_right(): pass
""",
    "test_fault.py": """
lost = []
def use():
    if lost: raise RuntimeError("CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)")
def test_before(): use()
def test_fault(): lost.append(1); use()
def test_after(): use()
""",
    "test_hang.py": """
import time
def test_first(): pass
def test_endless(): time.sleep(600)
def test_then(): pass
""",
    "test_long.py": """
@pytest.mark.seconds(9)
@pytest.mark.parametrize("k", range(3))
def test_one(k): pass
""",
    "test_crash.py": """
import os
def test_gone(): os._exit(7)
def test_there(): pass
""",
}


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("simulated")
    markers = ["gpu: on a simulated GPU", "seconds(n): the time that a test takes"]
    (folder / "pytest.ini").write_text("\n  ".join(["[pytest]\nmarkers =", *markers]))
    for name, text in FILES.items():
        (folder / name).write_text("import pytest\npytestmark = pytest.mark.gpu\n" + text)
    (folder / "test_cpu.py").write_text("def test_elsewhere(): assert False\n")
    completed = subprocess.run(
        [
            sys.executable,
            TOOL,
            "--jobs",
            "3",
            "--limit",
            "3",
            "--most",
            "4",
            "--save",
            folder / "s.json",
            folder,
        ],
        capture_output=True,
        text=True,
        cwd=folder,
        env=WITHOUT_PLUGINS,
    )
    assert completed.returncode == 1, completed.stdout + completed.stderr
    return {**json.loads((folder / "s.json").read_text()), "text": completed.stdout}


def outcomes(summary: dict[str, Any], file: str) -> dict[str, str]:
    results = [r for r in summary["results"] if r["test"].startswith(file)]
    by_test = {r["test"].partition("::")[2]: r["outcome"] for r in results}
    assert len(by_test) == len(results)
    return by_test


def test_tests_of_a_lost_process_continue_in_another(summary: dict[str, Any]) -> None:
    assert outcomes(summary, "test_fault.py") == {
        "test_before": "passed",
        "test_fault": "failed",
        "test_after": "passed",
    }
    assert outcomes(summary, "test_hang.py") == {
        "test_first": "passed",
        "test_endless": "hung",
        "test_then": "passed",
    }
    assert outcomes(summary, "test_crash.py") == {"test_gone": "crashed", "test_there": "passed"}
    processes = {file: f["processes"] for f in summary["files"] for file in f["files"]}
    assert processes["test_fault.py"] == processes["test_hang.py"] == processes["test_crash.py"] == 2


def test_every_test_has_a_result(summary: dict[str, Any]) -> None:
    assert summary["counts"] == {
        "passed": 1 + 5 + 1 + 2 + 2 + 1 + 3,
        "skipped": 1,
        "failed": 5,
        "hung": 1,
        "crashed": 1,
    }
    assert outcomes(summary, "test_cpu.py") == {}
    assert sum("test_good.py" in f["files"] for f in summary["files"]) == 2


def test_short_files_share_processes(summary: dict[str, Any]) -> None:
    """Files share a process as long as their total time is short, and at most --most files."""
    assert ["test_also.py", "test_crash.py"] in [f["files"] for f in summary["files"]]


def test_long_tests_start_in_separate_processes(summary: dict[str, Any]) -> None:
    assert summary["files"][0]["files"] == ["test_long.py"]
    assert sum("test_long.py" in f["files"] for f in summary["files"]) == 2


def test_failures_are_grouped_by_message(summary: dict[str, Any]) -> None:
    groups = {g["message"]: len(g["tests"]) for g in summary["groups"]}
    assert groups["failed: AssertionError: element # is #"] == 3
    assert groups["failed: KeyError: 'b'"] == 1
    assert next(iter(groups.values())) == 3
    assert "3 x failed: AssertionError: element # is #" in summary["text"]
    assert any(m.startswith("hung: the process did not end within # s") for m in groups)


def test_a_run_without_gpu_tests_fails(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = gpu: on a simulated GPU\n")
    (tmp_path / "test_cpu.py").write_text("def test_elsewhere(): pass\n")
    completed = subprocess.run(
        [sys.executable, TOOL, tmp_path], capture_output=True, text=True, cwd=tmp_path, env=WITHOUT_PLUGINS
    )
    assert completed.returncode == 2 and "nothing to run" in completed.stdout


SANITIZER = """
import pathlib, subprocess, sys
done = subprocess.run(sys.argv[1:])
tests = pathlib.Path(sys.argv[-1].removeprefix("@"))
found = 3 if tests.suffix == ".tests" and "test_wrong" in tests.read_text() else 0
print(f"========= ERROR SUMMARY: {found} errors")
sys.exit(done.returncode)
"""


def test_a_sanitizer_finding_fails_the_file(tmp_path: Path) -> None:
    markers = ["gpu: on a simulated GPU", "faults: on purpose", "seconds(n): the time that a test takes"]
    (tmp_path / "pytest.ini").write_text("\n  ".join(["[pytest]\nmarkers =", *markers]))
    for name, mark in (("test_good.py", "seconds(9)"), ("test_wrong.py", "gpu")):
        text = f"import pytest\npytestmark = pytest.mark.gpu\n@pytest.mark.{mark}\ndef test_one(): pass\n"
        (tmp_path / name).write_text(text)
    fault = "import pytest\npytestmark = [pytest.mark.gpu, pytest.mark.faults]\ndef test_one(): pass\n"
    (tmp_path / "test_fault.py").write_text(fault)
    (tmp_path / "sanitizer.py").write_text(SANITIZER)
    sanitizer, saved = f"{sys.executable} {tmp_path / 'sanitizer.py'}", tmp_path / "found.json"
    command = [sys.executable, str(TOOL), "--under", sanitizer, "--save", str(saved), str(tmp_path)]
    completed = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=WITHOUT_PLUGINS)
    assert completed.returncode == 1, completed.stdout + completed.stderr
    record = json.loads(saved.read_text())
    assert record["counts"] == {"passed": 2, "failed": 1}
    (group,) = record["groups"]
    assert group["message"] == "failed: ========= ERROR SUMMARY: # errors"
    assert group["tests"][0].startswith("test_wrong.py under ")
