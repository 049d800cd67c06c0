"""Names of tiles mean, path by path, what Python makes of the same program on NumPy arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest
from named_tiles import generate
from run_named_tiles import NO_REFERENCE, compare

from support.campaigns import chunks

EACH = 50


def outcomes(seeds: Iterable[int], shared: float, native: bool = True) -> Counter[str]:
    out: Counter[str] = Counter()
    for seed in seeds:
        program = generate(seed, shared)
        try:
            out[compare(program, native)] += 1
        except Exception:
            print("\n".join(program.texts))
            raise
    return out


def test_programs_with_register_tiles_do_what_python_does() -> None:
    assert outcomes([9, 12, 21], 0.0) == {"": 3}


@pytest.mark.cpu
def test_programs_mean_what_they_do_in_python() -> None:
    assert outcomes([35, 47, 251, 439], 0.0, native=False) == {"": 4}


@pytest.mark.cpu
def test_programs_with_shared_tiles_do_what_python_does_or_are_refused() -> None:
    found = outcomes(range(900, 908), 0.4, native=False)
    assert set(found) <= {"", "merged-shared-tiles"} and found[""] > 4


@pytest.mark.seconds(15)
@pytest.mark.parametrize("first", chunks(range(0, 5000, EACH)))
def test_more_programs_with_register_tiles(first: int) -> None:
    found = outcomes(range(first, first + EACH), 0.0)
    assert set(found) <= {"", *NO_REFERENCE} and found[""] > 0.9 * EACH


@pytest.mark.seconds(15)
@pytest.mark.parametrize("first", chunks(range(5000, 7000, EACH)))
def test_more_programs_with_shared_tiles(first: int) -> None:
    found = outcomes(range(first, first + EACH), 0.3)
    assert set(found) <= {"", "merged-shared-tiles", *NO_REFERENCE} and found[""] > 0.6 * EACH
