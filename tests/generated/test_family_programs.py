"""Programs of many statement families: the results of the device and of the interpreter equal NumPy's results."""

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
        "random_numbers",
        "in_out",
        "branch",
        "loop",
        "cholesky_factor",
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
    *(
        "atomic_add of floats",
        "sorts of topk",
        "matmuls of halves",
        "random_tiles of normal",
        "solvers by lu",
    ),
    *("transforms by fft2", "decompositions by svd", "thread_values by stack", "algebra of quaternions"),
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
    """The IR after all passes for GPUs runs in the interpreter, which detects data races; the GPU code is simulated
    thread by thread on the CPU."""
    program = FamilyProgram(5)
    assert outcome(program, ("lowered", "simulated")) == "ran", program


def test_a_wrong_result_of_a_family_program_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    program = FamilyProgram(1)
    wrong, lines = program.expected()
    output_index = RESULTS.index("out")
    wrong[output_index] = wrong[output_index] + (wrong[output_index] == np.max(wrong[output_index]))
    monkeypatch.setattr(FamilyProgram, "expected", lambda self: (wrong, lines))
    assert outcome(program).startswith("failed: in the interpreter out")
