"""Generated kernels: kernels that deadlock in the interpreter are refuted, other kernels pass. Replays of their lowered
forms, with copies by threads or bulk copies, fail exactly where the checker refutes."""

from __future__ import annotations

from functools import cache

import agreement
import numpy as np
import pytest
from replays import failure, ready
from schedules import lowered

import tegula as tg
from support.random_roles import ROWS, N, Program
from tegula import interp
from tegula.check.schedule import check_schedule
from tegula.check.verdict import Verdict
from tegula.ir import AccessClass, Kernel
from tegula.passes.pipeline import prepare
from tegula.passes.runner import GpuCompilation
from tegula.runtime.check import PACKED, STRIDED
from tegula.runtime.launch import block_size

PROGRAMS, FAST_SEEDS = 40, range(10)
ITERATIONS = (1, 2, 7)
ORDERS = 25


SEEDS = [pytest.param(k, marks=[] if k in FAST_SEEDS else [pytest.mark.slow]) for k in range(PROGRAMS)]


@cache
def judged(seed: int, arrays: AccessClass) -> tuple[Kernel, GpuCompilation, Verdict] | None:
    """A lowered program and its verdict; None for a program that the language refuses."""
    try:
        kernel, compilation = lowered(Program(seed).kernel(), arrays=arrays)
    except tg.CompileError:
        return None
    return kernel, compilation, check_schedule(kernel, compilation)


def deadlocks(program: Program) -> bool:
    """Whether a program deadlocks in one of a few launches."""
    kernel, out = program.kernel(), np.zeros((2 * program.roles, N), np.float32)
    x = np.zeros((ROWS, N), np.float32)
    args = [tg.array(x), tg.array(out)]
    threads = block_size(kernel, None, [*args, 1])
    for n in ITERATIONS:
        traced_kernel = agreement.traced(kernel, [*args, n], (2, threads), threads)
        prepare(traced_kernel)
        try:
            interp.run(traced_kernel, [x, out.copy(), n], (2, threads), threads)
        except tg.Deadlock:
            return True
    return False


@pytest.mark.parametrize("seed", SEEDS)
def test_programs_that_deadlock_in_the_interpreter_are_refuted(seed: int) -> None:
    """The verdicts on programs in which threads fetch the items of pipes."""
    program = Program(seed)
    try:
        wrong = deadlocks(program)
    except tg.CompileError:
        return
    result = judged(seed, STRIDED)
    assert result is not None
    actual = result[2]
    assert actual.status == "refuted" if wrong else actual.passed, f"{program.text}\n{actual.message}"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("arrays", [PACKED, STRIDED], ids=["bulk", "threads"])
def test_programs_that_pass_the_checker_never_fail_in_replays(seed: int, arrays: AccessClass) -> None:
    """A refuted launch may need more iterations than are replayed, or another order; a program that passes never
    fails."""
    program, judgement = Program(seed), judged(seed, arrays)
    if judgement is None:
        return
    kernel, compilation, actual = judgement
    result = ready(kernel, compilation)
    args = [np.zeros((ROWS, N), np.float32), np.zeros((2 * program.roles, N), np.float32)]
    failures = [failure(result, [*args, n], (1, compilation.threads), ORDERS) for n in (1, 2, 9)]
    allowed = ("refuted",) if any(failures) else ("proved", "no schedule", "unproved")
    assert actual.status in allowed, f"{program.text}\n{actual.message}\n{failures}"
