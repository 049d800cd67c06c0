"""Several GPUs in one process: arrays determine the device of a launch, and devices do not affect each other."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import tegula as tg

pytestmark = pytest.mark.skipif(tg.get_cuda_device_count() < 2, reason="there is one GPU")
DEVICES = ("cuda:0", "cuda:1")
N = 1 << 16


@tg.kernel
def doubled(x: tg.array1d[float], y: tg.array1d[float]):
    i = tg.tid()
    y[i] = 2.0 * x[i]


@tg.kernel
def copied_by_roles(x: tg.array2d[float], y: tg.array2d[float], n: int):
    pipe = tg.tile_pipe(shape=(8, 64), dtype=float, stages=3)
    with tg.role("fetch", warps=1):
        for k in range(n):
            tg.tile_pipe_load(pipe, x, offset=(8 * k, 0))
    with tg.role("store", warp_groups=1):
        for k in range(n):
            tg.tile_store(y, tg.tile_pipe_pop(pipe), offset=(8 * k, 0))


def data(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-9, 9, shape or (N,)).astype(np.float32)


def test_a_launch_runs_on_the_device_of_its_arrays() -> None:
    for current in DEVICES:
        with tg.ScopedDevice(current):
            for k, device in enumerate(DEVICES):
                x, y = tg.array(data(k), device=device), tg.zeros(N, device=device)
                tg.launch(doubled, N, [x], [y])
                assert str(y.device) == device
                np.testing.assert_array_equal(y.numpy(), 2 * data(k))


def test_launches_that_alternate_between_devices_are_correct() -> None:
    """Work of both devices, queued by one thread, is in flight at the same time."""
    pairs = [[tg.array(data(0), device=d), tg.zeros(N, device=d)] for d in DEVICES]
    for _ in range(50):
        for x, y in pairs:
            tg.launch(doubled, N, [x], [y])
            tg.launch(doubled, N, [y], [x])
    for (x, _), device in zip(pairs, DEVICES, strict=True):
        tg.synchronize_device(device)
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(x.numpy(), data(0) * np.float32(2.0**100))


def test_threads_launch_on_different_devices() -> None:
    wrong: list[str] = []

    def work(device: str, seed: int) -> None:
        with tg.ScopedDevice(device):
            for k in range(20):
                x, y = tg.array(data(seed + k)), tg.zeros(N)
                tg.launch(doubled, N, [x], [y])
                if str(y.device) != device or not np.array_equal(y.numpy(), 2 * data(seed + k)):
                    wrong.append(device)

    threads = [threading.Thread(target=work, args=(d, 100 * k)) for k, d in enumerate(DEVICES)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_copies_between_devices_are_correct() -> None:
    x = tg.array(data(1, 64, 64), device="cuda:0")
    y = x.to("cuda:1")
    assert str(y.device) == "cuda:1"
    np.testing.assert_array_equal(y.numpy(), data(1, 64, 64))
    tg.copy(y[::-1], x)
    np.testing.assert_array_equal(y.numpy(), data(1, 64, 64)[::-1])


def test_roles_with_bulk_copies_run_on_each_device() -> None:
    """Tensor maps contain addresses of one device."""
    for k, device in enumerate(DEVICES):
        x, y = tg.array(data(k, 80, 64), device=device), tg.zeros((80, 64), device=device)
        tg.launch_tiled(copied_by_roles, 1, [x], [y, 10])
        np.testing.assert_array_equal(y.numpy(), data(k, 80, 64))


def test_arrays_of_two_devices_are_refused() -> None:
    x, y = tg.zeros(N, device="cuda:0"), tg.zeros(N, device="cuda:1")
    with pytest.raises(tg.LaunchError, match="'x' is on cuda:0, 'y' is on cuda:1"):
        tg.launch(doubled, N, [x], [y])
    with pytest.raises(tg.LaunchError, match="the stream belongs to cuda:1"):
        tg.launch(doubled, N, [x], [tg.zeros(N, device="cuda:0")], stream=tg.Stream("cuda:1"))
    with pytest.raises(tg.LaunchError, match="the launch is on cuda:1"):
        tg.launch(doubled, N, [x], [tg.zeros(N, device="cuda:0")], device="cuda:1")


FAULT = """
import tegula as tg

@tg.kernel
def far(x: tg.array1d[float]):
    i = tg.tid()
    x[i + 1000000000] = 1.0

tg.launch(far, 32, [tg.zeros(32, device="cuda:1")])
try:
    tg.synchronize_device("cuda:1")
    raise SystemExit("there was no fault")
except tg.RunError as error:
    assert "'far'" in str(error), error
try:
    tg.zeros(32, device="cuda:1").numpy()
    raise SystemExit("the device was used again")
except tg.RunError as error:
    assert "cannot be used any more" in str(error), error
try:
    tg.zeros(32, device="cuda:0")
    raise SystemExit("another device was used")
except tg.RunError as error:
    assert "cuda:0 cannot be used any more" in str(error) and "'far'" in str(error), error
"""


@pytest.mark.faults
def test_a_fault_of_one_device_ends_the_use_of_all(tmp_path: Path) -> None:
    """After a fault the driver refuses all devices. Tested in a separate process, because faults are permanent."""
    (tmp_path / "fault.py").write_text(FAULT)
    completed = subprocess.run(
        [sys.executable, str(tmp_path / "fault.py")],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ,
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
