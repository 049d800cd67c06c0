"""Edited programs: correct programs of many shapes in which lines are left out, moved, repeated or changed. A proved
program has no fault in replays."""

from __future__ import annotations

from random import Random

import pytest

import tegula as tg
from support.attacks import judge
from support.attacks.edits import EDITS, apply_edits
from support.attacks.judge import proved
from support.attacks.program import defaults
from support.attacks.shapes import MIN_TWO_STAGES, SHAPES, UNPROVED
from support.campaigns import chunks
from tegula.ir import Kernel
from tegula.passes.runner import GpuCompilation

ITEMS = (0, 1, 2, 3, 4, 5, 7, 9, 20)
CAMPAIGN_SEEDS, CHUNK = range(4000), 20


def fault(text: str, kernel: Kernel, compilation: GpuCompilation, items: tuple[int, ...], count: int) -> str:
    """The first fault that `count` orders of launches with these numbers of items show; "" if there is none."""
    for n in items:
        args = judge.replay_arguments(text, {**defaults(200), "n": n, "m": 2})
        failure = judge.replay_lowered(kernel, compilation, args, count)
        if failure:
            return f"n = {n}: {failure}"
    return ""


def attack(seed: int) -> tuple[str, str]:
    """An edited program, and the names of its shape and edits."""
    rng = Random(f"edit {seed}")
    name = rng.choice([*SHAPES])
    text = SHAPES[name].replace(
        "{S}", str(rng.choice((2, 2, 3, 3, 4) if name in MIN_TWO_STAGES else (1, 2, 2, 3, 3, 4)))
    )
    text_after, edit_name = apply_edits(rng, text, rng.choice((1, 1, 2, 2, 3)))
    return text_after, f"{name}: {edit_name}"


def wrongly_proved(seed: int, items: tuple[int, ...] = ITEMS, count: int = 20) -> str:
    """The fault of an edited program that the checker proves; "" for a program without a fault or a proof."""
    text, edit_name = attack(seed)
    try:
        kernel, compilation = judge.lowered(judge.kernel_of(text))
    except tg.CompileError:
        return ""
    failure = fault(text, kernel, compilation, items, count) if proved(kernel, compilation) else ""
    return f"{seed}: {edit_name}: {failure}\n{text}" if failure and "unknown" not in failure else ""


@pytest.mark.parametrize("name", SHAPES)
def test_unedited_programs_of_all_shapes_are_proved(name: str) -> None:
    text = SHAPES[name].replace("{S}", "3")
    kernel, compilation = judge.lowered(judge.kernel_of(text))
    assert proved(kernel, compilation) == (name not in UNPROVED)
    assert not fault(text, kernel, compilation, (1, 4), 6)


def test_each_edit_applies_to_some_line() -> None:
    edit_names = {name for seed in range(200) for name in attack(seed)[1].partition(": ")[2].split(", ")}
    assert edit_names == EDITS.keys()


def test_edited_programs_that_are_proved_replay_without_faults() -> None:
    faults = [wrongly_proved(seed, (1, 5), 4) for seed in range(12)]
    assert not any(faults), "\n".join(faults)


@pytest.mark.parametrize("first", chunks(range(0, len(CAMPAIGN_SEEDS), CHUNK)))
def test_many_edited_programs_that_are_proved_replay_without_faults(first: int) -> None:
    faults = [wrongly_proved(seed) for seed in CAMPAIGN_SEEDS[first : first + CHUNK]]
    assert not any(faults), "\n".join(faults)
