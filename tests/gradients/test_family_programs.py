"""Gradients of generated programs of many statement families agree with finite differences, or are refused."""

from __future__ import annotations

from collections import Counter

import pytest
from check_program import GRADIENT_REFUSALS, PROGRAM_REFUSALS, check
from smooth_families import OTHER_STATEMENTS, SCALAR_FORMS, SmoothFamilies

from support.campaigns import chunks

pytestmark = pytest.mark.machine_code


def outcomes(seeds: range) -> tuple[Counter[str], set[str]]:
    """The outcomes of the gradients of programs over their trip counts, and the families of the programs."""
    result, families = Counter[str](), set[str]()
    for seed in seeds:
        program = SmoothFamilies(seed)
        verdicts = check(program, forward=())
        wrong = [
            v
            for v in verdicts.values()
            if v not in ("right", "unstable", *PROGRAM_REFUSALS, *GRADIENT_REFUSALS)
        ]
        assert not wrong, f"seed {seed}: {wrong}\n{program}"
        result.update(verdicts.values())
        families |= program.families
    return result, families


@pytest.mark.seconds(30)
@pytest.mark.parametrize("chunk", chunks(range(60)))
def test_gradients_of_family_programs_are_correct_or_refused(chunk: int) -> None:
    actual, families = outcomes(range(1000 + 5 * chunk, 1005 + 5 * chunk))
    assert actual["right"] >= 10, actual
    assert len(families & {*SCALAR_FORMS, *OTHER_STATEMENTS}) >= 4
