"""Modules of dropped kernels are unloaded after the device has finished their launches, not before."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
from simulated_driver import SimulatedDriver

import tegula as tg
from support.cuda_launches import Tensor, add, arrays, run_add, torch_stub
from tegula.runtime.cuda.dropped_modules import ForeignLibraries

DEVICE = "cuda:0"


@pytest.fixture
def driver(simulated: SimulatedDriver, monkeypatch: pytest.MonkeyPatch) -> SimulatedDriver:
    monkeypatch.setattr(ForeignLibraries, "used", False)
    simulated.kernels["kernel"] = run_add
    add.unload()
    return simulated


def relaunch() -> None:
    """Unload the code of the kernel, and launch the kernel."""
    add.unload()
    gc.collect()
    a, b, c = arrays(device=DEVICE)
    tg.launch(add, 1000, [a, b], [c], block_dim=64)
    np.testing.assert_array_equal(c.numpy(), 2 * np.arange(1000))


def test_dropped_modules_are_unloaded(driver: SimulatedDriver) -> None:
    for _ in range(10):
        relaunch()
    loads, unloads = (driver.calls.count(name) for name in ("cuModuleLoadDataEx", "cuModuleUnload"))
    assert loads == 10
    assert unloads == 8
    assert driver.calls.count("cuEventCreate") - driver.calls.count("cuEventDestroy_v2") <= 1


def test_modules_are_not_unloaded_while_the_device_works(driver: SimulatedDriver) -> None:
    driver.busy = True
    for _ in range(4):
        relaunch()
    assert "cuModuleUnload" not in driver.calls
    driver.busy = False
    relaunch()
    relaunch()
    assert driver.calls.count("cuModuleUnload") == 4


def test_modules_are_not_unloaded_if_the_driver_refuses_the_event(
    driver: SimulatedDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event that was never recorded counts as complete."""
    relaunch()
    with monkeypatch.context() as patched:
        patched.setattr(driver, "cuEventRecord", lambda *_: 906, raising=False)
        with pytest.raises(tg.RunError, match="default stream"):
            relaunch()
    relaunch()
    assert "cuModuleUnload" not in driver.calls
    relaunch()
    assert driver.calls.count("cuModuleUnload") == 1


def test_recorded_launches_keep_their_modules(driver: SimulatedDriver) -> None:
    a, b, c = arrays(device=DEVICE)
    with tg.ScopedCapture(DEVICE) as capture:
        tg.launch(add, 1000, [a, b], [c], block_dim=64)
    for _ in range(4):
        relaunch()
    tg.capture_launch(capture.graph)
    np.testing.assert_array_equal(c.numpy(), 2 * np.arange(1000))
    driver.calls.clear()
    del capture
    gc.collect()
    for _ in range(2):
        relaunch()
    assert driver.calls.count("cuModuleUnload") == 3


class NewTensor(Tensor):
    """Tensors of a class that no earlier test has passed to a launch."""


def launch_with_tensor(driver: SimulatedDriver) -> None:
    a, b, c = arrays(device=DEVICE)
    tg.launch(add, 1000, [NewTensor(a), b], [c], block_dim=64)


def wrap_stream(driver: SimulatedDriver) -> None:
    tg.stream_from_torch(SimpleNamespace(device_index=0, cuda_stream=driver.handle("stream")))


@pytest.mark.parametrize("use", [launch_with_tensor, wrap_stream])
def test_modules_that_another_library_may_have_recorded_are_not_unloaded(
    driver: SimulatedDriver, monkeypatch: pytest.MonkeyPatch, use: Callable[[SimulatedDriver], None]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch_stub(NewTensor))
    use(driver)
    for _ in range(4):
        relaunch()
    assert "cuModuleUnload" not in driver.calls
