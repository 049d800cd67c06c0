"""Rings whose first item is in a stage that an argument names: stages are renamed, and phases count as before."""

from __future__ import annotations

import pytest
from equivalent_rewrites import kernel
from proofs import ROTATED, outcome
from schedules import lowered

WRONG = {
    "a stage that is not in the ring": ("first < S", "first <= S"),
    "a negative stage": ("    assert first >= 0\n", ""),
    "the parity changes at stage 0": ("if s == first:", "if s == 0:"),
    "the parity changes one item later": ("if s == first:", "if s == (first + 1) % S:"),
    "the other role begins in stage 0": ("(full, (k + first) % S,", "(full, k % S,"),
    "the other role begins in the next stage": ("(k + first)", "(k + first + 1)"),
    "the stage before is given back": ("(empty, (k + first) % S)", "(empty, (k + first + S - 1) % S)"),
    "the next stage is read": ("ring[(k + first) % S]", "ring[(k + first + 1) % S]"),
    "the parity counts from stage 0": ("(k + first) % S, k // S)", "(k + first) % S, (k + first) // S)"),
    "another argument": ("(k + first) % S, k // S)", "(k + other) % S, k // S)"),
    "the copies go to other stages": ("(x, ring[s], (k, 0)", "(x, ring[k % S], (k, 0)"),
}


@pytest.mark.parametrize("stages", [1, 2, 4])
def test_rings_that_begin_in_any_stage_are_proved(stages: int) -> None:
    assert outcome(lowered(kernel(ROTATED, None, stages))) == "proved"


@pytest.mark.parametrize("name", WRONG)
def test_faulty_variants_are_not_proved(name: str) -> None:
    old, new = WRONG[name]
    assert old in ROTATED
    assert outcome(lowered(kernel(ROTATED.replace(old, new), None, 3))) != "proved"
