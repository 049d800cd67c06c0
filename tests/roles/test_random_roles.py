"""Generated kernels with any roles, pipes between them, and orders of filling, popping and use. Their results, and
their deadlocks with the waits, are the same on the device and in the interpreter; kernels that deadlock are not
compiled for a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import agreement
import numpy as np
import pytest
from exact_data import small_integers

import tegula as tg
from support.campaigns import rest_slow
from support.random_roles import ROWS, N, Program
from tegula import interp
from tegula.errors import ScheduleRefuted
from tegula.ir import Kernel
from tegula.passes.pipeline import prepare
from tegula.runtime.launch import block_size

PROGRAMS, FAST = 60, 30
ENOUGH_ITERATIONS = 20
"""The iterations after which every schedule that can deadlock has deadlocked."""


def outcome(run: Callable[[], np.ndarray]) -> Any:
    """The results of a run, or the waits of its deadlock."""
    try:
        return [run().copy()]
    except tg.Deadlock as error:
        return [text for _, text in error.waits]


def interpreted(kernel: Kernel, x: tg.array, out: tg.array, iterations: int, threads: int) -> Any:
    """The outcome of a prepared kernel in the interpreter."""

    def run() -> np.ndarray:
        written = np.zeros(out.shape, np.float32)
        interp.run(kernel, [x.numpy(), written, iterations], (2, threads), threads)
        return written

    return outcome(run)


def is_equal(a: Any, b: Any) -> bool:
    if isinstance(a[0], str) or isinstance(b[0], str):
        return bool(isinstance(a[0], str) and isinstance(b[0], str) and a == b)
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.machine_code(some=True)
@pytest.mark.parametrize("seed", rest_slow(((k,) for k in range(PROGRAMS)), lambda k: k < FAST))
def test_outcomes_of_random_roles_agree_on_all_devices(seed: int, on_device: str) -> None:
    program = Program(seed)
    kernel, x = program.kernel(), small_integers(ROWS, N)
    args = [x, zeros(program), 1]
    threads = block_size(kernel, None, args)
    try:
        traced_kernel = agreement.traced(kernel, args, (2, threads), threads)
        prepare(traced_kernel)
    except tg.CompileError as error:
        assert agreement.codes(error) == {"pipe-balance"}, program.text
        return
    for iterations in (1, 7):
        check(program, kernel, traced_kernel, x, iterations, threads, on_device)


def zeros(program: Program) -> Any:
    return tg.zeros((2 * program.roles, N))


def check(
    program: Program, kernel: Any, lowered: Kernel, x: Any, iterations: int, threads: int, on_device: str
) -> None:
    """Compare the outcome of a launch with the outcome of the prepared kernel, and its results with the results of the
    kernel in the interpreter."""
    out = zeros(program)

    def launched() -> np.ndarray:
        tg.launch_tiled(kernel, dim=2, inputs=[x, out, iterations])
        return out.numpy()

    prepared = interpreted(lowered, x, out, iterations, threads)
    try:
        actual = outcome(launched)
    except ScheduleRefuted:
        deadlock = (
            prepared
            if isinstance(prepared[0], str)
            else interpreted(lowered, x, out, ENOUGH_ITERATIONS, threads)
        )
        assert on_device != "cpu" and isinstance(deadlock[0], str), program.text
        return
    assert is_equal(actual, prepared), f"{program.text}\n{actual}\n{prepared}"
    if not isinstance(prepared[0], str):
        host_arrays = [tg.clone(x, device="cpu"), tg.zeros(out.shape, device="cpu")]
        agreement.interpret(kernel, [*host_arrays, iterations], (2, threads), threads)
        assert is_equal(actual, [host_arrays[1].numpy()]), program.text
