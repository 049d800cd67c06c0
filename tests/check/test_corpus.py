"""Wrong schedules and their correct twins: the verdicts differ, also for rewritten programs."""

from __future__ import annotations

import importlib.util
from itertools import product
from pathlib import Path
from types import ModuleType

import pytest
from equivalent_rewrites import REWRITES, kernel

from support.campaigns import rest_slow, sampled, slow_except
from tegula.errors import ScheduleRefuted

CORPUS = Path(__file__).parent / "corpus"
PROGRAMS = sorted(p.stem for p in CORPUS.glob("*.py"))
SLOW_REFUTATION = "ping_pong_with_a_single_tile"
"""A program whose wrong form takes long to refute."""
WITHOUT_BARRIER = {"fence", "race", "unfinished", "unwritten", "in-flight"}
"""Kinds of faults at an access or a copy; other faults are at a barrier."""

UNPROVED = {"mixed_fills_of_one_barrier"}
"""The names of correct programs without a proof."""


def program(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"corpus_{name}", CORPUS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@sampled(
    4, ("name", "rewrite"), rest_slow(product(PROGRAMS, REWRITES), lambda name, _: name != SLOW_REFUTATION)
)
def test_wrong_programs_of_the_corpus_are_refuted(name: str, rewrite: str) -> None:
    change, stages = REWRITES[rewrite]
    expected = program(name)
    verdict = kernel(expected.WRONG, change, stages).check()
    assert (verdict.status, verdict.kind) == ("refuted", expected.KIND), verdict.message
    assert verdict.loc.line
    assert verdict.help
    assert verdict.steps
    if expected.KIND not in WITHOUT_BARRIER:
        assert any(s.barrier and s.stage >= 0 and s.phase >= 0 for s in verdict.steps)


@sampled(2, ("name", "rewrite"), product(PROGRAMS, REWRITES))
def test_correct_programs_of_the_corpus_are_proved(name: str, rewrite: str) -> None:
    change, stages = REWRITES[rewrite]
    verdict = kernel(program(name).RIGHT, change, stages).check()
    expected = "unproved" if name in UNPROVED else "proved"
    assert verdict.status == expected, f"{verdict.kind}: {verdict.message}{verdict.launch_text}"


@pytest.mark.parametrize("name", slow_except({SLOW_REFUTATION}, PROGRAMS))
def test_refutations_name_the_role_the_barrier_and_the_missing_event(name: str) -> None:
    """Messages name the role, the barrier or tile, and the missing event."""
    expected = program(name)
    with pytest.raises(ScheduleRefuted) as caught:
        kernel(expected.WRONG).check().require()
    assert all(word in str(caught.value) for word in expected.WORDS), caught.value
