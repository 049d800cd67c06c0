"""Generated programs: gradients are those of float64 twins at the values and on the paths of the kernel."""

from __future__ import annotations

from collections import Counter

import pytest
from check_rounded import check
from rounded_programs import RoundedProgram

import tegula as tg

COUNT, CHUNKS = 2500, 25


def verdicts(seeds: range) -> Counter[str]:
    found: Counter[str] = Counter()
    for seed in seeds:
        program = RoundedProgram(seed)
        verdict = check(program)
        assert not verdict.startswith("wrong"), f"seed {seed}: {verdict}\n{program}"
        found[verdict.split(":")[0]] += 1
    return found


def test_a_gradient_in_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tg.config, "cache_kernels", False)
    assert verdicts(range(3, 4)) == {"right": 1}


@pytest.mark.slow
@pytest.mark.seconds(60)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_gradients_of_many_programs(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tg.config, "cache_kernels", False)
    found = verdicts(range(chunk * COUNT // CHUNKS, (chunk + 1) * COUNT // CHUNKS))
    assert found["right"] >= 0.8 * found.total(), found
