"""Signals while kernels run: a handler that raises ends a launch in the middle of its loops, a handler that returns
changes nothing, and loops compute the same as without polls."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tegula as tg

pytestmark = [pytest.mark.cpu, pytest.mark.machine_code]
LONG_TRIP_COUNT = 2_000_000_000
DELAY, TIME_LIMIT = 0.05, 1.0
"""The seconds after which a signal is sent, and the time limit for the end of the launch on a busy machine. A kernel
that ignores signals takes at least three times as long."""


class Interrupted(Exception):
    pass


@pytest.fixture
def alarm() -> Iterator[Callable[..., None]]:
    """Call a function on the main thread as a signal handler, after some seconds and at each `interval` if given."""

    def signal_after(seconds: float, call: Callable[[], Any], interval: float = 0) -> None:
        signal.signal(signal.SIGALRM, lambda *_: call())
        signal.setitimer(signal.ITIMER_REAL, seconds, interval)

    yield signal_after
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


def stop() -> None:
    raise Interrupted


# Kernels whose loops take seconds -------------------------------------------------------------------------------------


@tg.func
def mixed(k: int):
    return (k ^ (k >> 3)) * 5 + 1


@tg.func
def slow_function(x: float, n: int):
    k = 0
    while k < n:
        x = tg.sqrt(x * x + 1.0)
        k += 1
    return x


@tg.kernel
def uniform_while(out: tg.array[int], n: int):
    k, v = tg.uniform(n * 0), 1
    while k < n:
        v = mixed(v)
        k += 1
    out[0] = v


@tg.kernel
def lanes_while(out: tg.array[int], n: int):
    i = tg.tid()
    k, v = i, 1
    while k < n + i:
        v = mixed(v + i)
        k += 1
    out[i] = v


@tg.kernel
def reading_while(out: tg.array[int], n: int):
    i = tg.tid()
    k, v = 0, out[i]
    while k < n + out[0] * 0:
        v = mixed(v + out[i])
        k += 1
    out[i] = v


@tg.kernel
def counted(out: tg.array[int], n: int):
    i = tg.tid()
    v = i
    for k in range(n, 0, -1):
        v = mixed(v + k)
    out[i] = v


@tg.kernel
def counted_per_lane(out: tg.array[int], n: int):
    i = tg.tid()
    v = i
    for k in range(n + i):
        v = mixed(v + k)
    out[i] = v


@tg.kernel
def short_inner_loop(out: tg.array[int], n: int):
    i = tg.tid()
    v = i
    for k in range(n):
        if k % 2 == 0:
            for j in range(k % 5):
                v = mixed(v + j)
    out[i] = v


@tg.kernel
def literal_bounds(out: tg.array[int], n: int):
    i = tg.tid()
    v = i
    if n > 3:
        for k in range(1000):
            for j in range(1000):
                for h in range(1000):
                    v = mixed(v + h)
    out[i] = v


@tg.kernel
def tiles(out: tg.array[int], n: int):
    t = tg.tile_ones(shape=(16, 16), dtype=float)
    for _ in range(n):
        t = tg.tile_matmul(t, t) * 0.0625
    out[0] = int(t[0, 0])


@tg.kernel
def mapped(out: tg.array[int], n: int):
    t = tg.tile_map(slow_function, tg.tile_ones(shape=(64,), dtype=float), n)
    out[0] = int(t[0])


@tg.kernel
def one_role(out: tg.array[int], n: int):
    with tg.role("only", warps=1):
        v = 1
        for k in range(n):
            v = mixed(v + k)
        out[0] = v


@tg.kernel
def two_roles(out: tg.array[int], n: int):
    pipe = tg.tile_pipe(shape=(16,), dtype=float, stages=2)
    with tg.role("fill", warps=1):
        for k in range(n):
            tg.tile_pipe_push(pipe, tg.tile_ones(shape=(16,), dtype=float) * float(k))
    with tg.role("take", warps=1):
        total = tg.tile_zeros(shape=(16,), dtype=float)
        for k in range(n):
            total = total + tg.tile_pipe_pop(pipe)
        out[0] = int(total[0])


TILED = (one_role, two_roles)
KERNELS = (
    *(uniform_while, lanes_while, reading_while, counted, counted_per_lane, short_inner_loop, literal_bounds),
    *(tiles, mapped, *TILED),
)


def launched(kernel: Any, n: int, blocks: int = 1) -> np.ndarray:
    out = tg.zeros(64 * blocks, dtype=int, device="cpu")
    if kernel in TILED:
        tg.launch_tiled(kernel, dim=blocks, inputs=[out, n])
    else:
        tg.launch(kernel, dim=64 * blocks, inputs=[out, n], block_dim=64)
    return out.numpy()


def check_stopped(alarm: Callable[..., None], kernel: Any, blocks: int) -> None:
    launched(kernel, 3, blocks)  # compiles the kernel, so that the signal arrives while the kernel runs
    begin = time.monotonic()
    alarm(DELAY, stop)
    with pytest.raises(Interrupted):
        launched(kernel, LONG_TRIP_COUNT, blocks)
    assert time.monotonic() - begin < DELAY + TIME_LIMIT
    launched(counted, 3, 5)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_a_signal_ends_one_block(alarm: Callable[..., None], kernel: Any) -> None:
    check_stopped(alarm, kernel, 1)


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [1, 2, 33])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
@pytest.mark.parametrize("mode", ["release", "debug"])
def test_a_signal_ends_any_number_of_blocks(
    alarm: Callable[..., None], monkeypatch: pytest.MonkeyPatch, kernel: Any, blocks: int, mode: str
) -> None:
    monkeypatch.setattr(tg.config, "mode", mode)
    check_stopped(alarm, kernel, blocks)


# Handlers that do not raise -------------------------------------------------------------------------------------------


def python_counted(i: np.ndarray, n: int) -> np.ndarray:
    v = i.astype(np.int32)
    for k in range(n, 0, -1):
        v = v + np.int32(k)
        v = (v ^ (v >> 3)) * np.int32(5) + np.int32(1)
    return v


def test_a_signal_handler_that_returns_does_not_change_the_launch(alarm: Callable[..., None]) -> None:
    """The handler launches a kernel too, with more scratch memory than the interrupted one."""
    snapshots: list[np.ndarray] = []

    @tg.kernel
    def wide(out: tg.array[float]):
        t = tg.tile_ones(shape=(1 << 15,), dtype=float)
        u = tg.tile_zeros(shape=(1 << 15,), dtype=float)
        for _ in range(3):
            u = u + t
            t = t * 2.0
        tg.tile_store(out, u)

    @tg.kernel
    def sums(out: tg.array[float], n: int):
        t = tg.tile_zeros(shape=(256,), dtype=float)
        for _ in range(n):
            t = t * 0.5 + tg.tile_arange(256, dtype=float)
        tg.tile_store(out, t)

    def inner() -> None:
        out = tg.zeros(1 << 15, device="cpu")
        tg.launch_tiled(wide, dim=1, inputs=[out], block_dim=64)
        snapshots.append(out.numpy())

    out = tg.zeros(256, device="cpu")
    inner()
    tg.launch_tiled(sums, dim=1, inputs=[out, 1], block_dim=64)
    snapshots.clear()
    alarm(0.01, inner, 0.03)
    tg.launch_tiled(sums, dim=1, inputs=[out, 8_000_000], block_dim=64)
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert np.array_equal(out.numpy(), np.arange(256, dtype=np.float32) * 2)
    assert len(snapshots) > 1 and all((x == 7).all() for x in snapshots)


def test_a_signal_ends_a_launch_within_a_handler_too(alarm: Callable[..., None]) -> None:
    """The exception passes through the handler, and ends the launch that the handler interrupted."""
    depth: list[int] = []

    def fire() -> None:
        depth.append(len(depth))
        if len(depth) == 2:
            raise Interrupted
        launched(counted, LONG_TRIP_COUNT)

    launched(counted, 3)
    alarm(0.05, fire, 0.1)
    with pytest.raises(Interrupted):
        launched(counted, LONG_TRIP_COUNT)
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert depth == [0, 1]
    assert np.array_equal(launched(counted, 100), python_counted(np.arange(64), 100))


def test_a_launch_of_another_thread_continues_after_a_signal(alarm: Callable[..., None]) -> None:
    """Handlers run on the main thread meanwhile."""
    n, results, fired = 20_000_000, list[np.ndarray](), list[int]()
    expected = launched(counted, n)
    alarm(0.005, lambda: fired.append(1), 0.02)
    other_thread = threading.Thread(target=lambda: results.append(launched(counted, n)))
    other_thread.start()
    other_thread.join()
    assert fired and np.array_equal(results[0], expected)


# Results of loops -----------------------------------------------------------------------------------------------------

COUNTS = (0, 1, 2, 7, 63, 64, 65, 127, 255, 256, 1023, 1024, 1025, 2047, 2048, 2049, 5000)


@tg.kernel
def split_loops(out: tg.array2d[int], stops: tg.array[int], first: int, step: int, inner: int):
    i = tg.tid()
    a, b = i, 1
    for k in range(first, stops[0], step):
        a, b = b, a * 3 + k
    for k in range(first, stops[i], step):
        a, b = b, a * 5 + k
        for j in range(inner):
            a = a + j * b
    n = stops[0]
    while n > first:
        a, b, n = b + n, a * 7, n - 1
    m = stops[i]
    while m > out[i, 1]:
        a, b, m = b + m, a * 9 + out[i, 2], m - 1
    passes = tg.uniform(stops[0] * 0)
    while tg.atomic_add(out, i, 3, 1) < stops[i]:
        a += 11
    out[i, 0] = a ^ (b * 31) ^ passes


def expected_columns(i: int, stops: list[int], first: int, step: int, inner: int) -> tuple[int, int]:
    """The expected columns 0 and 3, computed in Python."""
    a, b = i, 1
    for k in range(first, stops[0], step):
        a, b = b, (a * 3 + k) & 0xFFFFFFFF
    for k in range(first, stops[i], step):
        a, b = b, (a * 5 + k) & 0xFFFFFFFF
        for j in range(inner):
            a = (a + j * b) & 0xFFFFFFFF
    for n in range(stops[0], first, -1):
        a, b = (b + n) & 0xFFFFFFFF, (a * 7) & 0xFFFFFFFF
    for m in range(stops[i], 2, -1):
        a, b = (b + m) & 0xFFFFFFFF, (a * 9 + 4) & 0xFFFFFFFF
    passes = max(stops[i], 0)
    value = ((a + 11 * passes) ^ (b * 31)) & 0xFFFFFFFF
    return value - (value >> 31 << 32), passes + 1


def check_split_loops(seed: int, block_dim: int, max_count: int) -> None:
    rng = np.random.default_rng(seed)
    counts = [n for n in COUNTS if n <= max_count]
    step = int(rng.choice([1, 1, 2, 3, -1, -2]))
    first, inner = int(rng.integers(-3, 4)), int(rng.integers(0, 4))
    sign = 1 if step > 0 else -1
    stops = [sign * int(n) * abs(step) + first + int(rng.integers(-1, 2)) for n in rng.choice(counts, 19)]
    table = np.tile(np.array([0, 2, 4, 0], np.int32), (19, 1))
    out, table_array = tg.array(table, device="cpu"), tg.array(np.array(stops, np.int32), device="cpu")
    tg.launch(split_loops, dim=19, inputs=[out, table_array, first, step, inner], block_dim=block_dim)
    expected = np.array([expected_columns(i, stops, first, step, inner) for i in range(19)])
    assert np.array_equal(out.numpy()[:, [0, 3]], expected), (seed, block_dim)


@pytest.mark.parametrize("block_dim", [1, 32])
def test_loops_that_are_split_for_polls_have_correct_results(block_dim: int) -> None:
    for seed in range(2):
        check_split_loops(seed, block_dim, 2049)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["release", "debug"])
@pytest.mark.parametrize("seed", range(40))
def test_many_loops_that_are_split_for_polls_have_correct_results(
    seed: int, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tg.config, "mode", mode)
    for block_dim in (1, 8, 32):
        check_split_loops(100 + seed, block_dim, 5000)


@tg.kernel
def hash_of_indices(out: tg.array[int], ends: tg.array[Any]):
    total = tg.uniform(out[0])
    for k in range(ends[0], ends[1]):
        total = total * 3 + int(k)
    out[0] = total


@pytest.mark.parametrize("dtype", [tg.int8, tg.uint8, tg.int16, tg.uint32, tg.int64], ids=str)
def test_loops_of_every_index_type_have_correct_results(dtype: Any) -> None:
    """Loops have up to the largest number of iterations of a narrow type."""

    low, high = (np.iinfo(dtype.name).min, np.iinfo(dtype.name).max) if dtype.bits < 32 else (5, 3000)
    out = tg.zeros(1, dtype=int, device="cpu")
    ends = tg.array(np.array([low, high], dtype.name), device="cpu")
    tg.launch(hash_of_indices, dim=1, inputs=[out, ends])
    total = 0
    for k in range(low, high):
        total = (total * 3 + k) & 0xFFFFFFFF
    assert out.numpy()[0] == total - (total >> 31 << 32)


# A process ------------------------------------------------------------------------------------------------------------

PROCESS = f"""
import os, signal, sys, threading, time
sys.path.insert(0, {str(Path(__file__).parent)!r})
import numpy as np
from test_interrupts import KERNELS, LONG_TRIP_COUNT, launched, python_counted, counted
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
for kernel in KERNELS:
    for blocks in (1, 9):
        launched(kernel, 3, blocks)
        sent = []
        def interrupt():
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)
        threading.Timer(0.1, interrupt).start()
        try:
            launched(kernel, LONG_TRIP_COUNT, blocks)
        except KeyboardInterrupt:
            assert time.monotonic() - sent[0] < {TIME_LIMIT}, (kernel.name, blocks)
        else:
            raise AssertionError(kernel.name)
        assert np.array_equal(launched(counted, 50, 9), python_counted(np.arange(576), 50))
print("usable", flush=True)
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
launched(counted, LONG_TRIP_COUNT)
"""


@pytest.mark.machine_code(some=True)  # in the process that it starts
@pytest.mark.slow
def test_ctrl_c_ends_a_process_in_a_kernel() -> None:
    process = subprocess.run(
        [sys.executable, "-c", PROCESS], capture_output=True, text=True, timeout=120, env=dict(os.environ)
    )
    assert process.stdout == "usable\n", process.stderr
    assert process.returncode == -signal.SIGINT and process.stderr.rstrip().endswith("KeyboardInterrupt")
