"""Kernels of the language on a GPU: arguments, reports, faults."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tegula as tg
from tegula.runtime.config import config


@tg.kernel
def axpy(x: tg.array1d[float], y: tg.array1d[float], a: float, n: int):
    i = tg.tid()
    if i < n:
        y[i] = a * x[i] + y[i]


@tg.kernel
def row_sums(x: tg.array2d[float], sums: tg.array1d[float]):
    i = tg.tid()
    tg.tile_store(sums, tg.tile_sum(tg.tile_load(x[i], 256)), offset=i)


@tg.kernel
def positive(x: tg.array1d[float]):
    i = tg.tid()
    assert x[i] > 0.0, "not positive"


@tg.kernel
def print_index(n: int):
    i = tg.tid()
    if i == 3:
        print(n, i)


@tg.kernel
def store_out_of_bounds(x: tg.array1d[float]):
    i = tg.tid()
    x[i + 5] = 1.0


def test_repeated_launches_take_other_arrays_numbers_and_streams() -> None:
    """Repeated launches run in machine code, with other arrays, numbers and streams."""
    side = tg.Stream("cuda:0")
    for k in range(12):
        x = np.arange(1000 + k % 3, dtype=np.float32)
        array, input_array = tg.array(x, device="cuda:0"), tg.full(x.size, float(k), device="cuda:0")
        for stream in (None, side):
            if stream is not None:
                stream.wait_stream(tg.get_stream("cuda:0"))
            tg.launch(axpy, 1002, [array, input_array, 0.5 * k, x.size], stream=stream)
            tg.synchronize_device("cuda:0")
        np.testing.assert_array_equal(input_array.numpy(), k + k * x)
    assert axpy.native is not None and axpy.native.__name__ == "launch"


def test_launches_take_scalars_and_arrays() -> None:
    x = np.arange(1000, dtype=np.float32)
    y = tg.array(x, device="cuda:0")
    tg.launch(axpy, 1000, [tg.array(x, device="cuda:0"), y, 2.0, 900])
    np.testing.assert_array_equal(y.numpy(), np.where(x < 900, 3 * x, x))


@tg.kernel
def rotated(x: tg.array1d[float], y: tg.array1d[float], n: int):
    i = tg.tid()
    y[i] = x[n - 1 - i] + 1.0


@pytest.mark.parametrize("n", [100, 1 << 14, 1 << 20, 1 << 23])
def test_each_launch_reads_the_writes_of_earlier_launches(n: int) -> None:
    """The first block of a launch reads elements that the last block of the previous launch writes, and writes elements
    that it reads."""
    x, y = tg.zeros(n, device="cuda:0"), tg.zeros(n, device="cuda:0")
    for _ in range(200):
        tg.launch(rotated, n, [x, y, n])
        x, y = y, x
    assert (x.numpy() == 200).all()


def test_launches_and_copies_alternate_in_order() -> None:
    n = 1 << 20
    x, y, side_stream = tg.zeros(n, device="cuda:0"), tg.zeros(n, device="cuda:0"), tg.Stream("cuda:0")
    for k in range(60):
        stream = side_stream if k % 5 == 4 else None
        tg.launch(rotated, n, [x, y, n], stream=stream)
        x, y = y, x
        if k % 3 == 0:
            y.assign(x)
            x, y = y, x
    assert (x.numpy() == 60).all()


def test_launches_take_strided_arguments() -> None:
    data = np.arange(64 * 256, dtype=np.float32).reshape(256, 64) % 7
    a = tg.array(data, device="cuda:0")
    for x in (a.transpose(), tg.clone(a.transpose())):
        sums = tg.zeros(64, device="cuda:0")
        tg.launch_tiled(row_sums, 64, [x], [sums], block_dim=64)
        np.testing.assert_array_equal(sums.numpy(), data.sum(0))


@pytest.mark.parametrize("block_dim", [1, 31, 32, 50, 256, 1024])
def test_launches_of_any_block_size_are_correct(block_dim: int) -> None:
    x, y = tg.ones(12345, device="cuda:0"), tg.zeros(12345, device="cuda:0")
    tg.launch(axpy, 12345, [x, y, 3.0, 12345], block_dim=block_dim)
    np.testing.assert_array_equal(y.numpy(), np.full(12345, 3))


def test_a_failed_assertion_is_raised_at_the_next_wait() -> None:
    x = tg.ones(1000, device="cuda:0")
    tg.launch(positive, 1000, [x])
    tg.synchronize()
    x[700:].zero_()
    tg.launch(positive, 1000, [x])
    with pytest.raises(
        tg.KernelAssertion, match=r"not positive \(in block 2, thread 188 of kernel positive\)"
    ):
        tg.synchronize()
    np.testing.assert_array_equal(x[:3].numpy(), [1, 1, 1])


def test_kernels_print_on_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    tg.launch(print_index, 10, [7], device="cuda:0")
    tg.synchronize_device("cuda:0")
    assert capsys.readouterr().out == "7 3\n"


def test_debug_mode_reports_accesses_out_of_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "mode", "debug")
    x = tg.zeros(100, device="cuda:0")
    tg.launch(store_out_of_bounds, 100, [x])
    with pytest.raises(tg.OutOfBounds, match=r"index \(100,\) is outside 'x' of shape \(100,\)"):
        x.numpy()
    np.testing.assert_array_equal(x.numpy(), np.arange(100) >= 5)


def test_recorded_launches_print(capsys: pytest.CaptureFixture[str]) -> None:
    with tg.ScopedCapture("cuda:0") as capture:
        tg.launch(print_index, 10, [7], device="cuda:0")
    for _ in range(2):
        tg.capture_launch(capture.graph)
        tg.synchronize()
    assert capsys.readouterr().out == "7 3\n7 3\n"


def test_a_second_process_finds_the_kernel_in_the_disk_cache(tmp_path: Path) -> None:
    code = """
import tegula as tg
from tests_gpu_launches import axpy
x, y = tg.ones(10, device="cuda:0"), tg.zeros(10, device="cuda:0")
tg.launch(axpy, 10, [x, y, 2.0, 10])
print(y.numpy().sum(), [c.from_cache for c in axpy.compiled])
"""
    (tmp_path / "tests_gpu_launches.py").write_text(Path(__file__).read_text())
    command = [sys.executable, "-c", code]
    cache = {**os.environ, "TEGULA_CACHE_DIR": str(tmp_path / "cache")}
    runs = [
        subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=cache) for _ in range(2)
    ]
    assert [r.stdout for r in runs] == ["20.0 [False]\n", "20.0 [True]\n"], runs[0].stderr


@pytest.mark.faults
def test_a_fault_names_the_kernel_and_ends_the_use_of_the_device() -> None:
    code = f"""
import sys
sys.path[:0] = {[str(Path(__file__).parent), str(Path(__file__).parent.parent / "backend")]}
from raw_launch import VectorAdd
import tegula as tg
add = VectorAdd()
a, b, c = (tg.zeros(1000, device="cuda:0") for _ in range(3))
c.packed = (8).to_bytes(8, "little") + c.packed[8:]
add(a, b, c)
for use in (tg.synchronize, a.numpy, lambda: tg.zeros(3, device="cuda:0"), lambda: add(a, b, c)):
    try:
        use()
    except tg.RunError as error:
        print(error)
"""
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    lines = completed.stdout.splitlines()
    assert len(lines) == 4, completed.stderr
    assert "an access outside of any array in kernel 'vector_add': CUDA_ERROR_ILLEGAL_ADDRESS" in lines[0]
    assert all("cuda:0 cannot be used any more in this process, after: " in line for line in lines[1:])
    assert completed.returncode == 0
