"""Generated programs: gradients equal the gradients of float64 twins with the values and the paths of the kernel."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from check_rounded import check
from duals import DualNumbers
from rounded_programs import CELLS, INPUTS, RESULT_GRADIENTS, TYPES, RoundedProgram

import tegula as tg
from support.campaigns import chunks

PROGRAM_COUNT, CHUNK_SIZE = 2500, 5
CHUNKS = PROGRAM_COUNT // CHUNK_SIZE
GPU_CHUNKS = 100
"""The number of chunks that run on a GPU, where each program compiles for a second."""


def verdicts(seeds: range) -> Counter[str]:
    result: Counter[str] = Counter()
    for seed in seeds:
        program = RoundedProgram(seed)
        verdict = check(program)
        assert not verdict.startswith("wrong"), f"seed {seed}: {verdict}\n{program}"
        result[verdict.split(":")[0]] += 1
    return result


@pytest.mark.machine_code
@pytest.mark.parametrize("seed", [3, 812])
def test_gradients_of_rounded_programs_match_in_bfloat16_and_through_float32(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tg.config, "cache_kernels", False)
    assert verdicts(range(seed, seed + 1)) == {"right": 1}


CHUNK_PARAMETERS = [
    pytest.param(
        *parameters.values, marks=[*parameters.marks, *([pytest.mark.cpu] if k >= GPU_CHUNKS else [])]
    )
    for k, parameters in enumerate(chunks(range(CHUNKS)))
]


@pytest.mark.machine_code
@pytest.mark.seconds(30)
@pytest.mark.parametrize("chunk", CHUNK_PARAMETERS)
def test_gradients_of_many_rounded_programs_are_correct(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tg.config, "cache_kernels", False)
    actual = verdicts(range(chunk * CHUNK_SIZE, (chunk + 1) * CHUNK_SIZE))
    assert actual["right"] >= 0.8 * actual.total(), actual


# The twin -------------------------------------------------------------------------------------------------------------

STEP_EXPONENTS = (13, 18, 23)
"""The exponents of the step sizes, powers of 1/2."""


def twin_is_smooth(seed: int) -> bool:
    """Assert that the derivative of the twin along a random direction is the limit of difference quotients. Returns
    False if there is no derivative: a length may be 0 because squares underflow."""
    program, rng = RoundedProgram(seed), np.random.default_rng(seed)
    a = rng.uniform(-1.5, 1.5, INPUTS).astype(TYPES[program.dtype]).astype(np.float64)
    g, direction = rng.choice(RESULT_GRADIENTS, CELLS), rng.standard_normal(INPUTS)
    g[program.cells :] = 0.0
    base = program.run_at_edges(a)
    gradient, _ = program.gradient(base, g)

    def value(step: float) -> float:
        return float((program.values(program.rerun(base, a + step * direction)) * g).sum())

    def difference(step: float) -> float:
        return (value(step) - value(-step)) / (2.0 * step)

    # The fixed rounding errors make lengths close to 0 NaN at a small distance.
    with np.errstate(invalid="ignore"):
        steps = ([2.0 ** -(k + n) for k in range(3)] for n in STEP_EXPONENTS)
        result = [(h[0], d) for h in steps if np.isfinite(d := [*map(difference, h)]).all()]
    if not result:
        return False
    step, slopes = result[0]
    first, last = ((4.0 * y - x) / 3.0 for x, y in pairwise(slopes))
    noise = 2.0**-43 / step * max(0.5, float(np.abs(gradient * direction).sum()))
    is_close = abs(last - gradient @ direction) <= 2.0 * abs(last - first) + noise
    assert is_close, f"seed {seed}: {last} for {gradient @ direction}\n{program}"
    return True


@pytest.mark.cpu
def test_the_float64_twin_of_a_program_has_the_derivative_of_its_values() -> None:
    assert all(twin_is_smooth(seed) for seed in (*range(40), 267, 2312))


@pytest.mark.seconds(35)
@pytest.mark.cpu
@pytest.mark.parametrize("step", chunks((5, 1)))
def test_float64_twins_of_all_programs_have_the_derivatives_of_their_values(step: int) -> None:
    seeds = range(0, PROGRAM_COUNT, step)
    assert sum(map(twin_is_smooth, seeds)) > 0.99 * len(seeds)


@pytest.mark.cpu
def test_a_rounded_adjoint_makes_all_its_paths_inexact() -> None:
    """The bound counts all paths, also if their contributions cancel."""
    x = DualNumbers.inputs(np.array([3.0, 5.0]))
    rounded = (x * 2.0).with_rounded_adjoint(0.5)
    total = rounded[0] - rounded[0] + np.sin(rounded[1]) * 0.0 + x[1]
    assert total.tangents[0].tolist() == [0.0, 1.0]
    assert total.tangents[2].tolist() == [0.5 * (2.0 + 2.0), 0.0]
