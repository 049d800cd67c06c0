"""Random programs of roles that wait and arrive at barriers, judged by all interleavings of small launches."""

from __future__ import annotations

import pytest
from barrier_programs import Program, random_program, right_roles
from equivalent_rewrites import kernel
from proof.proofs import outcome
from schedules import lowered

from tegula.check.proof import search

MAX_WORK = 3000
"""The step limit of searches for proofs of random programs, most of which are wrong."""
MIN_SHARE = 0.7
"""The minimum part of the random programs without a deadlock that is proved: changes of right programs make programs
that nobody would write."""


def is_proved(program: Program) -> bool:
    return outcome(lowered(kernel(program.text(), None, program.stages))) == "proved"


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_right_programs_of_barriers_never_block_and_are_proved(stages: int) -> None:
    for ahead in range(1, stages + 1):
        for roles in right_roles(stages, ahead):
            program = Program(roles, stages)
            assert program.blocked_launch() is None
            assert is_proved(program), program.text()


def judge(seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    """Require that no random program that may block is proved, and that most of the others are."""
    for name in ("MAX_WORK", "FIRST_WORK"):
        monkeypatch.setattr(search, name, MAX_WORK)
    right = proved = 0
    for seed in seeds:
        program = random_program(seed)
        blocked = program.blocked_launch()
        is_certain = is_proved(program)
        assert blocked is None or not is_certain, (
            f"seed {seed} may block with n = {blocked}, {program.stages} stages:\n{program.text()}"
        )
        right, proved = right + (blocked is None), proved + (blocked is None and is_certain)
    assert proved >= MIN_SHARE * right > 0


def test_no_program_of_barriers_that_may_block_is_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    judge(range(60), monkeypatch)


@pytest.mark.slow(every=1)
@pytest.mark.parametrize("part", range(2))
def test_none_of_many_programs_of_barriers_that_may_block_is_proved(
    part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge(range(1000 + 250 * part, 1250 + 250 * part), monkeypatch)
