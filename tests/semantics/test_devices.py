"""The device fixture: in folders for all devices, arrays and launches of a test are on the device of its variant."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tegula as tg

TESTS = Path(__file__).parent.parent


@tg.kernel
def double(x: tg.array1d[float], y: tg.array1d[float]):
    i = tg.tid()
    y[i] = 2.0 * x[i]


def test_arrays_are_on_the_device_of_the_variant(on_device: str) -> None:
    arrays = [tg.zeros(3), tg.ones((2, 2)), tg.array(np.arange(3.0)), tg.clone(tg.zeros(3)), tg.empty(3)]
    assert [str(a.device) for a in arrays] == [on_device] * len(arrays)
    assert str(tg.get_device()) == on_device


@pytest.mark.machine_code
def test_launches_are_on_the_device_of_the_variant(on_device: str) -> None:
    x, y = tg.array(np.arange(100, dtype=np.float32)), tg.zeros(100)
    tg.launch(double, 100, inputs=[x], outputs=[y])
    assert str(y.device) == on_device
    assert (y.numpy() == 2.0 * np.arange(100)).all()


# Both variants of a test run with the simulated driver; device scopes are effective or ignored.

RUN_WITH_SIMULATED_DRIVER = """
import sys, pytest
sys.path.insert(0, sys.argv[1] + "/runtime")

class SimulatedDriverPlugin:
    def pytest_configure(self, config):
        from simulated_driver import SimulatedDriver
        from tegula.runtime.cuda import driver
        import tegula as tg
        driver.install(SimulatedDriver())
        if sys.argv[2] == "ignored":
            tg.ScopedDevice.__enter__ = lambda self: self.device
            tg.ScopedDevice.__exit__ = lambda self, *error: None

tests = sys.argv[1] + "/semantics/test_devices.py::test_arrays_are_on_the_device_of_the_variant"
arguments = ["-q", "-rA", "-p", "no:cacheprovider", "--rootdir", sys.argv[1] + "/..", tests]
sys.exit(pytest.main(arguments, [SimulatedDriverPlugin()]))
"""


@pytest.mark.parametrize(("device_scope", "on_gpu"), [("effective", "PASSED"), ("ignored", "FAILED")])
def test_device_variants_of_tests_fail_on_another_device(device_scope: str, on_gpu: str) -> None:
    """On a machine with a GPU each test has a GPU variant, which fails if its arrays are on another device."""
    completed = subprocess.run(
        [sys.executable, "-c", RUN_WITH_SIMULATED_DRIVER, str(TESTS), device_scope],
        capture_output=True,
        text=True,
        cwd=TESTS.parent,
        env=os.environ,
    )
    report = completed.stdout + completed.stderr
    for status, device in (("PASSED", "cpu"), (on_gpu, "cuda:0")):
        name = f"test_arrays_are_on_the_device_of_the_variant[{device}]"
        assert f"{status} tests/semantics/test_devices.py::{name}" in report, report
