"""Generated programs, lowered to the threads of a GPU block, keep their results and have no data races.

TEGULA_GENERATED sets the number of programs (100), half of which run with buffers that share bytes; half of each are
slow tests."""

from __future__ import annotations

import os
from collections import Counter

import pytest
from choices import Choices
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from lowering import Launch, agrees, barriers
from programs import Maker, Program
from run_program import REFUSED, arguments, build

import tegula as tg

PROGRAMS = int(os.environ.get("TEGULA_GENERATED", "100"))


@st.composite
def programs(draw: st.DrawFn) -> Program:
    return Maker(Choices(lambda n: draw(st.integers(0, n - 1)))).program()


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
def test_same_results_without_races(memory: str, half: int) -> None:
    outcomes: Counter[str] = Counter()

    @seed(len(memory) + 100 * half)
    @settings(
        max_examples=max(1, PROGRAMS // (4 if half else 24)),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
        print_blob=False,
    )
    @given(programs())
    def check(program: Program) -> None:
        try:
            outcomes[outcome(program)] += 1
        except Exception:
            print(program)
            raise

    check()
    assert outcomes["ran"] >= 0.9 * outcomes.total(), outcomes
