"""Generated programs, lowered to the threads of a GPU block, keep their results and have no data races.

TEGULA_GENERATED sets the number of programs (100), half of which run with buffers that share bytes; half of each are
slow tests."""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest
from choices import ChoiceSource
from lowering import Launch, agrees, barriers
from programs import Program, ProgramWriter
from run_program import REFUSED, arguments, build

import tegula as tg

PROGRAMS = int(os.environ.get("TEGULA_GENERATED", "100"))


def outcome(program: Program) -> str:
    """ "ran", or the code of the error by which the program was refused."""
    try:
        kernel, _ = agrees(Launch(build(program), arguments(program), program.dims, program.block_dim))
    except tg.CompileError as e:
        codes = {x.CODE for x in getattr(e, "errors", [e])}
        if codes - set(REFUSED):
            raise
        return min(codes)
    assert all(b.attrs["reason"] for b in barriers(kernel))
    return "ran"


@pytest.mark.parametrize("half", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_lowered_programs_match_the_interpreter_without_races(memory: str, half: int) -> None:
    outcomes: Counter[str] = Counter()

    for number in range(max(1, PROGRAMS // (4 if half else 24))):
        draw = random.Random(f"{memory}.{half}.{number}").randrange
        program = ProgramWriter(ChoiceSource(draw)).program()
        try:
            outcomes[outcome(program)] += 1
        except Exception:
            print(program)
            raise
    assert outcomes.total() - outcomes["ran"] <= 0.1 * outcomes.total() + 2, outcomes
