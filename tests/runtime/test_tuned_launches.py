"""Tuned kernels on a GPU, with the simulated driver."""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path

import numpy as np
import pytest
from simulated_driver import SimulatedDriver

import tegula as tg
from tegula.runtime.config import config
from tegula.tune import clock


@tg.kernel
def add(a: tg.array1d[float], b: tg.array1d[float], c: tg.array1d[float]):
    i = tg.tid()
    c[i] = a[i] + b[i]


@tg.kernel
def increment(a: tg.array1d[float]):
    i = tg.tid()
    a[i] = a[i] + 1.0


def floats(address: int, n: int) -> np.ndarray:
    return np.frombuffer((ctypes.c_float * n).from_address(address), np.float32)


def run_add(blocks: int, threads: int, data: bytes) -> None:
    (a, n, _), (b, *_), (c, *_) = (struct.unpack_from("<3q", data, 24 * k) for k in range(3))
    # A block size with another result in the simulation.
    floats(c, n)[:] = floats(a, n) + floats(b, n) + (threads == 512)


def run_increment(blocks: int, threads: int, data: bytes) -> None:
    a, n, _ = struct.unpack_from("<3q", data)
    floats(a, n)[:] += 1.0


@pytest.fixture
def driver(simulated: SimulatedDriver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimulatedDriver:
    """A simulated driver, with an empty disk cache."""
    monkeypatch.setattr(config, "kernel_cache_dir", str(tmp_path))
    simulated.kernels["kernel"] = run_add
    monkeypatch.setattr(clock, "PAUSE", 0.0)
    return simulated


def arrays(n: int = 1000) -> list[tg.array]:
    data = np.arange(n, dtype=np.float32)
    return [tg.array(data, device="cuda:0"), tg.array(data, device="cuda:0"), tg.zeros(n, device="cuda:0")]


def test_candidates_are_timed_by_events_around_recorded_launches(driver: SimulatedDriver) -> None:
    kernel = tg.autotune(block_dim=[128, 256, 512])(add)
    a, b, c = arrays()
    with pytest.warns(RuntimeWarning, match="block_dim=512 is dropped"):
        tg.launch(kernel, 1000, [a, b], [c])
    np.testing.assert_array_equal(c.numpy(), np.arange(1000) * 2.0)
    report = kernel.reports[0]
    assert [o.candidate.values["block_dim"] for o in report.dropped] == [512]
    assert all(o.seconds for o in report.outcomes if not o.dropped)
    # For each candidate one graph of a single call and one of a burst; each burst is one launch of a graph.
    assert driver.calls.count("cuStreamBeginCapture_v2") == 4
    assert driver.calls.count("cuGraphLaunch") == 2 * (1 + clock.REPEATS) + 4
    assert driver.calls.count("cuEventElapsedTime") == 2 * (1 + clock.REPEATS)
    launches = len(driver.launches)
    tg.launch(kernel, 1000, [a, b], [c])
    assert len(driver.launches) == launches + 1


def test_arrays_changed_in_place_are_restored_in_the_recording(driver: SimulatedDriver) -> None:
    driver.kernels["kernel"] = run_increment
    kernel = tg.autotune(block_dim=[128, 256])(increment)
    a = arrays()[0]
    tg.launch(kernel, 1000, [], [a])
    np.testing.assert_array_equal(a.numpy(), np.arange(1000) + 1.0)


def test_tuning_in_a_recording_is_refused(driver: SimulatedDriver) -> None:
    kernel = tg.autotune(block_dim=[64, 96])(add)
    a, b, c = arrays()
    expected = "launched in a recording before it is tuned"
    with pytest.raises(tg.TuningError, match=expected), tg.ScopedCapture("cuda:0"):
        tg.launch(kernel, 1000, [a, b], [c])
    tg.launch(kernel, 1000, [a, b], [c])
    with tg.ScopedCapture("cuda:0") as recorded:
        tg.launch(kernel, 1000, [a, b], [c])
    c.zero_()
    tg.capture_launch(recorded.graph)
    np.testing.assert_array_equal(c.numpy(), np.arange(1000) * 2.0)


def test_a_candidate_that_faults_the_device_is_named(driver: SimulatedDriver) -> None:
    def fault(blocks: int, threads: int, data: bytes) -> None:
        run_add(blocks, threads, data)
        driver.sticky = 700 if threads == 160 else 0

    driver.kernels["kernel"] = fault
    kernel = tg.autotune(block_dim=[192, 160, 224])(add)
    a, b, c = arrays()
    expected = "candidate block_dim=160 makes cuda:0 unusable: an access outside of any array in kernel 'add'"
    with pytest.raises(tg.TuningError, match=expected):
        tg.launch(kernel, 1000, [a, b], [c])
