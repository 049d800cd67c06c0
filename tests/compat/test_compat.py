"""The runner of the public tests on a package of our own: it reports a loss, a gain, a crash and a hang."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TESTS = """
import os, signal, time, unittest
import warp as wp
from warp.tests.unittest_utils import *

no_such = wp.no_such_name


@wp.kernel
def double(a: wp.array1d(dtype=float)):
    i = wp.tid()
    a[i] = 2.0 * a[i]


def test_double(test, device):
    a = wp.array([1.0, 2.0], dtype=float, device=device)
    wp.launch(double, dim=2, inputs=[a], device=device)
    assert_np_equal(a.numpy(), np.array([2.0, 4.0], dtype=np.float32))


def test_error(test, device):
    with test.assertRaisesRegex(KeyError, "other words"):
        raise ValueError("words")


class TestSmall(unittest.TestCase):
    def test_crash(self):
        os.kill(os.getpid(), signal.SIGSEGV)

    def test_hang(self):
        time.sleep(60)

    def test_name(self):
        print(no_such)


for function in (test_double, test_error):
    add_function_test(TestSmall, function.__name__, function, devices=get_test_devices())
add_function_test(TestSmall, "test_gpu", test_double, devices=get_cuda_test_devices())
"""
BUILTINS = '''
add_builtin("sin", doc="""Sine.

    Example:

        .. testcode::
            :skipif: True

            print(wp.types.no_such if False else 1)

        .. testoutput::

            1""")
add_builtin("cos", doc="""Cosine.

        .. testcode::

            print(2)

        .. testoutput::

            3
""")
'''
ALL = {
    "small::test_double_cpu: passed",
    "small::test_error_cpu: passed",
    "small::test_crash: failed: crashed: SIGSEGV",
    "small::test_hang: failed: hung: longer than 2 s",
    "small::test_name: failed: AttributeError: tegula has no name 'no_such_name' @ line 6",
    "small::test_gpu: skipped: no device",
    "examples::sin: passed",
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The directory of a package with a few tests and examples."""
    for path, text in (("tests/tile/test_small.py", TESTS), ("_src/builtins.py", BUILTINS)):
        file = tmp_path / "warp" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


def run(package: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs the command on a package, with its own file of names that pass."""
    command = [sys.executable, str(HERE), "--package", str(package), "--limit", "2", *options]
    command += ["--passing", str(package / "passing.txt")]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.cpu
def test_newly_failing_and_newly_passing_tests_are_reported(package: Path) -> None:
    names = package / "passing.txt"
    names.write_text("examples::cos\nexamples::sin\nsmall::test_double_cpu\n")
    completed = run(package)
    lines = set(completed.stdout.splitlines())
    assert lines > ALL | {"lost: examples::cos", "gained: small::test_error_cpu"}, (
        completed.stdout + completed.stderr
    )
    assert "3 of 7 pass; 1 lost, 1 gained." in lines
    assert completed.returncode == 1


@pytest.mark.cpu
def test_lists_of_passing_tests_are_written_and_updated(package: Path) -> None:
    names = package / "passing.txt"
    completed = run(package, "small::test_double", "--update")
    assert (completed.returncode, names.read_text()) == (0, "small::test_double_cpu\n"), (
        completed.stdout + completed.stderr
    )
    completed = run(package, "small::test_error", "--strict")
    assert completed.returncode == 0  # a test that did not run is not lost
    assert "small::test_error_cpu: failed: ValueError: words @ line 23" in completed.stdout.splitlines()
