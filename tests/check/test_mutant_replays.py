"""A sample of the mutants of tools/mutants.py: mutants that fail in a replay do not pass the checker, and mutants that
behave like the kernel do."""

from __future__ import annotations

from functools import lru_cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from mutation.judge import JudgedMutant, MutantJudge
from mutation.operators import saved
from mutation.subjects import MAKERS, subject

from tegula.ir.text import print_kernel

SAMPLE_STEP = {"attention": 90, "chain": 20, "matmul": 20, "matmul32": 10, "producers": 12, "persistent": 30}
"""The step by which the mutants of each kernel are sampled."""
ORDERS = 12


@lru_cache(maxsize=1)
def judge(name: str) -> MutantJudge:
    return MutantJudge(subject(name), ORDERS)


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKERS)
def test_mutants_that_fail_in_a_replay_do_not_pass_the_checker(name: str) -> None:
    judgements = list(judge(name).all(7, SAMPLE_STEP[name]))
    assert [j for j in judgements if j.is_missed] == []
    assert [j for j in judgements if j.same_events and not j.passed] == []
    assert sum(bool(j.failure) for j in judgements) > len(judgements) // 2
    assert sum(j.is_false_alarm for j in judgements) <= 1 + len(judgements) // 20


def test_each_subject_has_many_mutants() -> None:
    """Each kernel has many mutants, and no two are equal."""
    mutant_judge = judge("persistent")
    assert len(mutant_judge.mutants) > 300
    assert len({(m.operator, m.change) for m in mutant_judge.mutants}) == len(mutant_judge.mutants)
    kinds = {m.operator.partition(" ")[0] for m in mutant_judge.mutants}
    assert kinds >= {
        "drop",
        "double",
        "move",
        "retarget",
        "phase",
        "stage",
        "count",
        "bytes",
        "address",
        "budget",
    }


def test_mutants_restore_their_kernel() -> None:
    mutant_judge = judge("producers")
    before, allocations = (
        print_kernel(mutant_judge.subject.kernel),
        dict(mutant_judge.subject.compilation.shared.allocations),
    )
    before_mutation = saved(mutant_judge.subject)
    for mutant in mutant_judge.mutants:
        mutant.apply()
        before_mutation.restore(mutant_judge.subject)
    assert print_kernel(mutant_judge.subject.kernel) == before
    assert mutant_judge.subject.compilation.shared.allocations == allocations


def judged_mutant(name: str, operator: str, mutant_name: str) -> JudgedMutant:
    mutant_judge = judge(name)
    (mutant,) = (
        m for m in mutant_judge.mutants if m.operator == operator and m.change.startswith(mutant_name)
    )
    return mutant_judge.judge(mutant)


def test_replays_find_faults_of_mutants_without_the_checker() -> None:
    """Replays do not use the checker: a few mutants, and their failures."""
    assert judged_mutant("chain", "drop fence", "without fence.async #0").failure.startswith("fence")
    assert judged_mutant("chain", "drop wait", "without mbarrier.wait raw.full").failure.startswith("race")
    assert judged_mutant("chain", "drop release", "without mbarrier.arrive raw.empty").failure.startswith(
        "deadlock"
    )
    twice = judged_mutant("chain", "double wait", "mbarrier.wait raw.full")
    assert twice.failure == "" and twice.status == "proved"


def test_device_mutants_are_selected_by_number() -> None:
    """Mutants that end with wrong results in some order have the numbers by which separate processes find them."""
    tool_path = Path(__file__).parent.parent.parent / "tools" / "device_mutants.py"
    tool: Any = module_from_spec(spec := spec_from_file_location("device_mutants", tool_path))  # type: ignore[arg-type]
    assert spec is not None and spec.loader is not None
    spec.loader.exec_module(tool)
    row = next(row for row in tool.selected_mutants("producers", 1) if row["group"] == "wrong")
    assert row["operator"] == "drop fence" and row["checker"] == "fence"
    assert judge("producers").mutants[row["number"]].change == row["change"]
    assert set(tool.SIZES) == set(tool.OUTPUTS) == set(tool.BLOCKS) == set(MAKERS)
