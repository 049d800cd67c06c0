"""Launches on the thread pool: every block runs once, for any launching thread."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from native_kernels import COUNTING, NAMES, TARGETS, arguments, loaded

from tegula.backend import pool

pytestmark = pytest.mark.machine_code(some=True)

CODE = loaded(COUNTING)
KERNEL = pool.KernelFunction(CODE.address("kernel"))
THREADS = 3


def count(blocks: int, work: int = 1, scratch: int = 64, threads: int | None = THREADS) -> np.ndarray:
    out = np.zeros(max(blocks, 1), np.int64)
    pool.run(KERNEL, arguments(out, work, scratch), blocks, scratch, threads)
    return out


@pytest.mark.parametrize("target", TARGETS, ids=NAMES)
def test_pool_code_for_every_target_runs(target):
    code = loaded(COUNTING, target)
    out = np.zeros(100, np.int64)
    pool.run(pool.KernelFunction(code.address("kernel")), arguments(out), 100, 64, THREADS)
    assert (out == 1).all()


@settings(max_examples=60)
@given(
    blocks=st.integers(1, 3000),
    work=st.sampled_from([1, 50, 1000]),
    scratch=st.sampled_from([16, 64, 5000, 100_000]),
    threads=st.sampled_from([None, 1, 2, 3, 4]),
)
def test_the_pool_runs_every_block_once(blocks, work, scratch, threads):
    assert (count(blocks, work, scratch, threads) == 1).all()


def test_a_launch_of_no_blocks_runs_nothing():
    assert count(0) == [0]


def test_the_pool_runs_every_block_of_many_small_launches():
    out = np.zeros(40, np.int64)
    for _ in range(5000):
        pool.run(KERNEL, arguments(out), 40, 64, THREADS)
    assert (out == 5000).all()


def test_workers_that_sleep_wake_for_launches_after_pauses():
    """Workers sleep in the pauses, and must be woken."""
    out = np.zeros(64, np.int64)
    for k in range(100):
        time.sleep(0.0002 * (k % 7))
        pool.run(KERNEL, arguments(out, 2000), 64, 64, THREADS)
    assert (out == 100).all()


def test_scratch_memory_of_workers_grows_and_is_disjoint():
    for scratch in (64, 1 << 20, 128, 4 << 20):
        assert (count(200, 2000, scratch) == 1).all()


def test_scratch_memory_is_aligned():
    text = """
define i32 @kernel(ptr %args, ptr %scratch, i64 %begin, i64 %end) prefix i64 1 {
  %out = load ptr, ptr %args
  %at = ptrtoint ptr %scratch to i64
  %bits = and i64 %at, 63
  %old = atomicrmw umax ptr %out, i64 %bits monotonic
  ret i32 0
}"""
    code, out = loaded(text), np.zeros(1, np.int64)
    for blocks in (1, 200):
        pool.run(pool.KernelFunction(code.address("kernel")), arguments(out), blocks, 1000, THREADS)
    assert out == [0]


def test_several_workers_run_blocks_of_a_launch():
    """Each block spins until another block runs at the same time, and records it."""
    text = """
define i32 @kernel(ptr %args, ptr %scratch, i64 %begin, i64 %end) prefix i64 1 {
entry:
  %running = load ptr, ptr %args
  %joined = getelementptr i8, ptr %running, i64 8
  %old = atomicrmw add ptr %running, i64 1 seq_cst
  br label %look
look:
  %k = phi i64 [ 0, %entry ], [ %next, %look ]
  %now = load atomic i64, ptr %running seq_cst, align 8
  %two = icmp sge i64 %now, 2
  %next = add i64 %k, 1
  %late = icmp sgt i64 %next, 100000000
  %over = or i1 %two, %late
  br i1 %over, label %out, label %look
out:
  %one = zext i1 %two to i64
  %was = atomicrmw or ptr %joined, i64 %one seq_cst
  ret i32 0
}"""
    code, out = loaded(text), np.zeros(2, np.int64)
    for _ in range(5):
        out[0] = 0
        pool.run(pool.KernelFunction(code.address("kernel")), arguments(out), 2, 64, THREADS)
    assert out[1] == 1


def test_launches_from_many_python_threads_run_every_block():
    results: list[bool] = []

    def launch() -> None:
        for k in range(200):
            results.append(bool((count(1 + 37 * k % 500, 20, 64 + k) == 1).all()))

    threads = [threading.Thread(target=launch) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(30)
    assert len(results) == 1200 and all(results)


def test_idle_workers_use_no_processor_time():
    count(1000, 100)
    time.sleep(0.01)
    before = time.process_time()
    time.sleep(0.1)
    assert time.process_time() - before < 0.02


def test_the_memory_of_an_unreferenced_pool_is_not_freed():
    """The workers of the pool execute the pool's code until the process ends."""
    body = "import gc\nfor _ in range(20):\n    pool.WorkerPool(3)\n    gc.collect()\ntime.sleep(0.02)"
    assert (process(body).returncode, process(body).stderr) == (0, "")


def test_thread_count_follows_the_environment_and_the_processor(monkeypatch):
    monkeypatch.setenv("TEGULA_NUM_THREADS", "5")
    assert pool.thread_count() == 5
    monkeypatch.delenv("TEGULA_NUM_THREADS")
    assert pool.thread_count() == len(os.sched_getaffinity(0))
    for wrong in ("0", "-1", "two", "1.5", "²"):
        monkeypatch.setenv("TEGULA_NUM_THREADS", wrong)
        with pytest.raises(ValueError, match="TEGULA_NUM_THREADS"):
            pool.thread_count()


# Signals --------------------------------------------------------------------------------------------------------------


class Stopped(Exception):
    pass


@pytest.fixture
def alarm():
    """Call a function on the main thread after some seconds, as a signal handler."""

    def signal_after(seconds: float, call) -> None:
        signal.signal(signal.SIGALRM, lambda *_: call())
        signal.setitimer(signal.ITIMER_REAL, seconds)

    yield signal_after
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


def stop() -> None:
    raise Stopped


@pytest.mark.parametrize("threads", [1, THREADS])
def test_a_signal_ends_a_long_launch(alarm, threads):
    out = np.zeros(1_000_000, np.int64)
    alarm(0.1, stop)
    begin = time.monotonic()
    with pytest.raises(Stopped):
        pool.run(KERNEL, arguments(out, 100_000), out.size, 64, threads)
    assert time.monotonic() - begin < 3
    snapshot = out.copy()
    time.sleep(0.02)
    np.testing.assert_array_equal(out, snapshot)
    assert 0 < snapshot.sum() < out.size and set(np.unique(snapshot)) == {0, 1}
    assert (count(1000) == 1).all()


def test_a_signal_ends_a_launch_that_waits_for_a_worker(alarm):
    """The caller has no blocks left, and a worker runs a long block."""
    out = np.zeros(2, np.int64)
    alarm(0.05, stop)
    with pytest.raises(Stopped):
        while True:
            pool.run(KERNEL, arguments(out, 50_000_000), 2, 64, 2)
    assert (count(100) == 1).all()


def test_a_signal_handler_may_launch(alarm):
    """The launch in the handler gets other, larger scratch memory than the interrupted launch."""
    inner: list[np.ndarray] = []
    alarm(0.06, lambda: inner.append(count(100, 10, 8 << 20)))
    out = np.zeros(3000, np.int64)
    begin = time.monotonic()
    iterations = 0
    while not inner and time.monotonic() - begin < 5:
        pool.run(KERNEL, arguments(out, 400_000), 3000, 64, THREADS)
        iterations += 1
    assert (inner[0] == 1).all()
    assert (out == iterations).all()


# Processes ------------------------------------------------------------------------------------------------------------


def forked(body) -> int:
    """Run a function in a forked child. Returns the exit status, or -1 if the child hangs."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if body() else 2
        finally:
            os._exit(status)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        ended_pid, status = os.waitpid(child, os.WNOHANG)
        if ended_pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_can_launch():
    count(1000, 100)
    assert forked(lambda: (count(1000, 100) == 1).all() and (count(1) == 1).all()) == 0
    assert (count(1000, 100) == 1).all()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_forked_during_a_launch_can_launch():
    running = threading.Event()
    over = False

    def launch() -> None:
        while not over:
            count(1000, 1000)
            running.set()

    launching = threading.Thread(target=launch)
    launching.start()
    running.wait(10)
    try:
        assert [forked(lambda: (count(500, 100) == 1).all()) for _ in range(3)] == [0, 0, 0]
    finally:
        over = True
        launching.join(10)
    assert not launching.is_alive()


HEADER = f"""
import sys, threading, time
sys.path.insert(0, {str(Path(__file__).parent)!r})
import numpy as np
from native_kernels import COUNTING, arguments, loaded
from tegula.backend import pool
code = loaded(COUNTING)
kernel = pool.KernelFunction(code.address("kernel"))
def count(blocks, work=1):
    out = np.zeros(blocks, np.int64)
    pool.run(kernel, arguments(out, work), blocks, 64, 3)
    return out
print(count(1000).sum(), flush=True)
"""


def process(body: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", HEADER + body], capture_output=True, text=True, timeout=30)


@pytest.mark.parametrize(
    "body",
    [
        "",
        "sys.exit(0)",
        "loop = lambda: [count(100, 1000) for _ in iter(int, 1)]\n"
        "threading.Thread(target=loop, daemon=True).start()\ntime.sleep(0.05)",
        "threading.Thread(target=lambda: print(count(10).sum())).start()",
        "import atexit; atexit.register(lambda: count(1000, 1000))",
    ],
    ids=["plain", "exit", "launching", "thread", "atexit"],
)
def test_a_process_with_a_pool_exits_cleanly(body):
    completed = process(body)
    assert (completed.returncode, completed.stderr) == (0, "")
    assert completed.stdout.startswith("1000")


def test_ctrl_c_ends_a_process_with_a_launch():
    body = """
import signal, os
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
count(10_000_000, 100_000)
"""
    completed = process(body)
    assert completed.returncode == -signal.SIGINT
    assert completed.stderr.rstrip().endswith("KeyboardInterrupt")
