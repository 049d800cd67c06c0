"""Programs of many families: the device and the interpreter give what Python on NumPy arrays gives."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from family_programs import FamilyProgram
from run_family_program import outcome

from support.campaigns import chunks

pytestmark = pytest.mark.machine_code
FAMILIES = {
    *(
        "number",
        "real",
        "vector",
        "quaternion",
        "matrix",
        "body",
        "drawn",
        "in_out",
        "branch",
        "loop",
        "factor",
    ),
    *("atomic", "sort", "scan", "gather", "sum", "random", "vectors", "matmul"),
    *("indexed", "scattered", "assigned", "pairs", "masked"),
    *("running", "extreme", "counted", "batched", "column"),
}


def check(seeds: range) -> Counter[str]:
    """Run programs, and return the families that were used in them."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        program = FamilyProgram(seed)
        found = outcome(program)
        assert found == "ran", f"seed {seed}: {found}\n{program}"
        seen.update(program.seen)
    return seen


def test_families_are_what_python_says() -> None:
    check(range(3))


@pytest.mark.seconds(30)
@pytest.mark.parametrize("chunk", chunks(range(40)))
def test_families_are_what_python_says_in_many_programs(chunk: int) -> None:
    seen = check(range(1000 + 30 * chunk, 1030 + 30 * chunk))
    assert seen.keys() >= FAMILIES


def test_a_wrong_result_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    program = FamilyProgram(1)
    wrong = program.expected()
    wrong[1] = wrong[1] + (wrong[1] == np.max(wrong[1]))
    monkeypatch.setattr(FamilyProgram, "expected", lambda self: wrong)
    assert outcome(program).startswith("failed: out")
