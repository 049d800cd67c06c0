"""The marker `machine_code` is checked: a marked test without machine code fails, and so does an unmarked test with
machine code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent
CONFTEST = "pytest_plugins = ['support.machine_code']\n"
KERNEL = """
import pytest
import tegula as tg

@tg.kernel
def kernel(x: tg.array1d[float]):
    i = tg.tid()
    x[i] = 1.0

def launch(): tg.launch(kernel, dim=4, inputs=[tg.zeros(4)])

code = pytest.mark.machine_code

@code
def test_first(): launch()
@code
def test_loaded_before(): launch()
def test_nothing(): pass
def test_unmarked(): launch()
@code
def test_marked(): pass
@code
def test_skipped(): pytest.skip("not here")
@code(some=True)
@pytest.mark.parametrize("runs", [False, True])
def test_some(runs): launch() if runs else None
"""


def test_tests_with_a_wrong_machine_code_marker_fail(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_library_kernels.py").write_text(KERNEL)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {TESTS}\nmarkers =\n  machine_code\n")
    completed = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    failed = [line.split(" ")[1] for line in completed.stdout.splitlines() if line.startswith("FAILED")]
    assert failed == ["test_library_kernels.py::test_unmarked", "test_library_kernels.py::test_marked"], (
        completed.stdout
    )
    assert (
        "the test runs machine code: mark the test" in completed.stdout
        and "the test runs no machine code" in completed.stdout
    )
    assert "5 passed, 1 skipped" in completed.stdout
