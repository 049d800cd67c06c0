"""Programs of many families: the results of the device and of the interpreter equal Python's on NumPy arrays."""

from __future__ import annotations

from collections import Counter

import families
import numpy as np
import pytest
from family_programs import RESULTS, FamilyProgram
from run_family_program import outcome

from support.campaigns import chunks

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
        "atomic",
    ),
    *(
        "sort",
        "scan",
        "gather",
        "sum",
        "random",
        "vectors",
        "matmul",
        "indexed",
        "scattered",
        "assigned",
        "pairs",
    ),
    *(
        "masked",
        "running",
        "extreme",
        "counted",
        "batched",
        "column",
        "atomic_exch",
        "atomic_cas",
        "atomic_xor",
    ),
    *("atomic_add of floats", "orders of topk", "matmuls of halves", "draws of normal", "solvers by lu"),
    *("transforms by fft2", "decompositions by svd", "of_threads by stack", "algebra of quaternions"),
    *(family.__name__ for family in families.FAMILIES),
}


def check(seeds: range) -> None:
    for seed in seeds:
        program = FamilyProgram(seed)
        result = outcome(program)
        assert result == "ran", f"seed {seed}: {result}\n{program}"


def test_programs_of_all_families_are_generated() -> None:
    features: Counter[str] = Counter()
    for seed in range(200):
        features.update(FamilyProgram(seed).families)
    assert features.keys() >= FAMILIES, FAMILIES - features.keys()


@pytest.mark.machine_code
def test_family_programs_match_python() -> None:
    check(range(3))


@pytest.mark.machine_code
@pytest.mark.seconds(30)
@pytest.mark.parametrize("chunk", chunks(range(120)))
def test_many_family_programs_match_python(chunk: int) -> None:
    check(range(1000 + 10 * chunk, 1010 + 10 * chunk))


@pytest.mark.cpu
@pytest.mark.slow
@pytest.mark.machine_code
def test_gpu_code_of_family_programs_matches_python() -> None:
    """After all passes for GPUs in the interpreter, which detects data races, and thread by thread on the CPU."""
    program = FamilyProgram(5)
    assert outcome(program, ("lowered", "simulated")) == "ran", program


def test_a_wrong_result_of_a_family_program_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    program = FamilyProgram(1)
    wrong, lines = program.expected()
    position = RESULTS.index("out")
    wrong[position] = wrong[position] + (wrong[position] == np.max(wrong[position]))
    monkeypatch.setattr(FamilyProgram, "expected", lambda self: (wrong, lines))
    assert outcome(program).startswith("failed: in the interpreter out")
