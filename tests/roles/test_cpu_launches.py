"""Launches of roles on a CPU: on all cores, with signals, from the disk cache, and their reports."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exact_data import small_integers

import tegula as tg
from tegula.backend.llvm import compile_object
from tegula.backend.loader import undefined_symbols
from tegula.backend.switch import switch_text
from tegula.target import get_target

pytestmark = pytest.mark.cpu
N = 16


@tg.kernel
def doubled(x: tg.array2d[float], out: tg.array2d[float], n: int):
    i = tg.tid()
    pipe = tg.tile_pipe(shape=(1, N), dtype=float, stages=2)
    with tg.role("load", warps=1):
        for k in range(n):
            tg.tile_pipe_load(pipe, x, offset=(i, 0))
    with tg.role("store", warps=1):
        for k in range(n):
            tg.tile_store(out, tg.tile_pipe_pop(pipe) * 2.0, offset=(i, 0))


def arrays_on_cpu(*shape: int) -> tuple[tg.array, tg.array]:
    x = tg.clone(small_integers(*shape), device="cpu")
    return x, tg.zeros_like(x)


@pytest.mark.machine_code
def test_signal_handlers_run_while_roles_run() -> None:
    x, out = arrays_on_cpu(64, N)
    caught: list[int] = []
    previous_handler = signal.signal(signal.SIGALRM, lambda number, frame: caught.append(number))
    signal.setitimer(signal.ITIMER_REAL, 1e-4, 1e-4)
    try:
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            tg.launch_tiled(doubled, dim=64, inputs=[x, out, 100])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous_handler)
    assert caught and np.array_equal(out.numpy(), 2 * x.numpy())


@pytest.mark.machine_code
def test_an_interrupt_ends_a_launch_of_roles() -> None:
    x, out = arrays_on_cpu(64, N)

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    tg.launch_tiled(doubled, dim=64, inputs=[x, out, 1])
    previous_handler = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            tg.launch_tiled(doubled, dim=1_000_000, inputs=[x, out, 1000])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous_handler)
    out.zero_()
    tg.launch_tiled(doubled, dim=64, inputs=[x, out, 3])
    assert np.array_equal(out.numpy(), 2 * x.numpy())


@pytest.mark.machine_code
def test_launches_of_roles_from_several_threads_are_correct() -> None:
    failures: list[object] = []

    def work() -> None:
        x, out = arrays_on_cpu(32, N)
        for _ in range(50):
            out.zero_()
            tg.launch_tiled(doubled, dim=32, inputs=[x, out, 5])
            if not np.array_equal(out.numpy(), 2 * x.numpy()):
                failures.append(out.numpy())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.machine_code
def test_a_kernel_with_roles_from_the_disk_cache_runs() -> None:
    x, out = arrays_on_cpu(8, N)
    tg.launch_tiled(doubled, dim=8, inputs=[x, out, 1])
    doubled.unload()
    out.zero_()
    tg.launch_tiled(doubled, dim=8, inputs=[x, out, 1])
    assert doubled.compiled[-1].from_cache and np.array_equal(out.numpy(), 2 * x.numpy())


@pytest.mark.machine_code
def test_objects_of_roles_have_no_undefined_symbols() -> None:
    x, out = arrays_on_cpu(8, N)
    tg.launch_tiled(doubled, dim=8, inputs=[x, out, 1])
    text = doubled.llvm()
    assert "@switch_stack" in text and not undefined_symbols(compile_object(text, get_target("x86-64-v3")))


def test_role_switches_exist_for_both_processors() -> None:
    for x86 in (True, False):
        assert switch_text(x86).count("define hidden void @") == 2


@pytest.mark.machine_code
def test_the_block_size_follows_from_the_roles() -> None:
    x, out = arrays_on_cpu(8, N)
    for options in ({}, {"block_dim": 128}):
        out.zero_()
        tg.launch_tiled(doubled, dim=8, inputs=[x, out, 1], **options)
        assert np.array_equal(out.numpy(), 2 * x.numpy())
    out.zero_()
    tg.launch(doubled, dim=(8, 128), inputs=[x, out, 1])
    assert np.array_equal(out.numpy(), 2 * x.numpy())
    with pytest.raises(tg.LaunchError, match="blocks of 128 threads"):
        tg.launch_tiled(doubled, dim=8, inputs=[x, out, 1], block_dim=64)


@pytest.mark.machine_code
def test_the_block_size_follows_the_current_captures() -> None:
    def launched(groups: int) -> int:
        nonlocal count
        count = groups
        out = tg.zeros(1, dtype=int, device="cpu")
        tg.launch_tiled(wide, dim=1, outputs=[out])
        return int(out.numpy()[0])

    count = 1

    @tg.kernel
    def wide(out: tg.array1d[int]):
        with tg.role("all", warp_groups=count):
            out[0] = tg.block_dim()

    assert [launched(n) for n in (1, 3, 2, 1)] == [128, 384, 256, 128]


@pytest.mark.machine_code
def test_explain_shows_roles_and_pipes() -> None:
    x, out = arrays_on_cpu(8, N)
    tg.launch_tiled(doubled, dim=8, inputs=[x, out, 1])
    lines = [line.strip() for line in doubled.explain().splitlines()]
    assert "load: warp 0 (32 threads), registers chosen by the compiler" in lines
    assert "idle: 64 threads" in lines
    assert "pipe: 2 stages of float32 1x16 (128 bytes), from load to store" in lines


def test_role_functions_outside_of_kernels_are_errors() -> None:
    for use in (lambda: tg.ws(0), lambda: tg.role("a", warps=1), lambda: tg.persistent_tiles((1, 1))):
        with pytest.raises(tg.LaunchError, match="in kernels only"):
            use()


@pytest.mark.machine_code
def test_a_kernel_without_pipes_has_no_pipe_report() -> None:
    @tg.kernel
    def filled(out: tg.array2d[float]):
        with tg.ws(0):
            tg.tile_store(out, tg.tile_ones(shape=(4, 8)))
        with tg.ws(1):
            tg.tile_store(out, tg.tile_ones(shape=(4, 8)), offset=(4, 0))

    out = tg.zeros((8, 8), device="cpu")
    tg.launch_tiled(filled, dim=1, outputs=[out])
    assert (out.numpy() == 1).all() and not filled.compiled[-1].sites


STUCK = """
import tegula as tg

@tg.kernel
def stuck(x: tg.array2d[float]):
    pipe = tg.tile_pipe(shape=(1, 8), dtype=float, stages=2)
    with tg.ws(0):
        tg.tile_store(x, tg.tile_pipe_pop(pipe))

try:
    tg.launch_tiled(stuck, dim=100_000, inputs=[tg.zeros((1, 8))])
except tg.Deadlock:
    print("found")
"""


def test_a_deadlock_of_many_blocks_ends_at_once(tmp_path: Path) -> None:
    program = tmp_path / "stuck.py"
    program.write_text(STUCK)
    completed = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, timeout=60, check=True
    )
    assert completed.stdout.split() == ["found"]
