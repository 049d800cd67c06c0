"""Objects that carry state through loops, lowered to the threads of a GPU block whose buffers share bytes: the
interpreter, which detects data races, has the results of Python on NumPy arrays."""

from __future__ import annotations

import random

import numpy as np
import pytest
from choices import ChoiceSource
from lowering import Launch, lowered, run_lowered
from state_programs import StateProgramWriter

from support.campaigns import chunks

CHUNKS, EACH = 250, 20


def check(seeds: range) -> None:
    for seed in seeds:
        program = StateProgramWriter(ChoiceSource(random.Random(seed).randrange)).program()
        launch = Launch(program.kernel(), program.arguments(), program.dims, program.block_dim)
        try:
            actual, _ = run_lowered(*lowered(launch), launch)
            np.testing.assert_array_equal(actual[-1], program.expected())
        except Exception:
            print(f"# seed {seed}", program, sep="\n")
            raise


def test_lowered_state_programs_match_python(memory: str) -> None:
    check(range(3))
    check(range(1883, 1884))  # a tile in the memory of a stack's votes


@pytest.mark.parametrize("chunk", chunks(range(CHUNKS)))
def test_many_lowered_state_programs_match_python(memory: str, chunk: int) -> None:
    check(range(1000 + chunk * EACH, 1000 + (chunk + 1) * EACH))
