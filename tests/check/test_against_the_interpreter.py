"""Generated kernels: those that deadlock in the interpreter are refuted, the others pass. Replays of what they are
lowered to, with copies by threads or by bulk copies, fail where the checker refutes, and nowhere else."""

from __future__ import annotations

import agreement
import numpy as np
import pytest
from replays import failure, ready
from schedules import lowered

import tegula as tg
from support.random_roles import ROWS, N, Program
from tegula import interp
from tegula.check.schedule import check_schedule
from tegula.ir import AccessClass
from tegula.passes.pipeline import prepare
from tegula.runtime.check import PACKED, STRIDED
from tegula.runtime.launch import block_size

PROGRAMS = 40
ROUNDS = (1, 2, 7)
ORDERS = 25


def deadlocks(program: Program) -> bool:
    """Whether it does, in one of a few launches."""
    kernel, out = program.kernel(), np.zeros((2 * program.roles, N), np.float32)
    x = np.zeros((ROWS, N), np.float32)
    args = [tg.array(x), tg.array(out)]
    threads = block_size(kernel, None, [*args, 1])
    for n in ROUNDS:
        made = agreement.traced(kernel, [*args, n], (2, threads), threads)
        prepare(made)
        try:
            interp.run(made, [x, out.copy(), n], (2, threads), threads)
        except tg.Deadlock:
            return True
    return False


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_verdicts(seed: int) -> None:
    """Where threads fetch what pipes carry."""
    program = Program(seed)
    try:
        wrong = deadlocks(program)
    except tg.CompileError:
        return
    found = check_schedule(*lowered(program.kernel(), arrays=STRIDED))
    assert found.status == "refuted" if wrong else found.passed, f"{program.text}\n{found.message}"


@pytest.mark.parametrize("seed", range(PROGRAMS))
@pytest.mark.parametrize("arrays", [PACKED, STRIDED], ids=["bulk", "threads"])
def test_replays(seed: int, arrays: AccessClass) -> None:
    """A launch that is refuted may need more rounds than these, or an order that is not among them; what passes
    never fails."""
    program = Program(seed)
    try:
        kernel, parts = lowered(program.kernel(), arrays=arrays)
    except tg.CompileError:
        return
    found, made = check_schedule(kernel, parts), ready(kernel, parts)
    args = [np.zeros((ROWS, N), np.float32), np.zeros((2 * program.roles, N), np.float32)]
    failures = [failure(made, [*args, n], (1, parts.threads), ORDERS) for n in (1, 2, 9)]
    assert found.status == "refuted" if any(failures) else found.passed, (
        f"{program.text}\n{found.message}\n{failures}"
    )
