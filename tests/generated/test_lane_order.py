"""The order of element accesses: generated programs do what a model says that knows only the order of statements, or
are refused; on the interpreter, on the device, and lowered to the threads of a GPU block, without data races."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from agreement import agree, codes
from lane_programs import LaneProgram

import tegula as tg

sys.path.insert(0, str(Path(__file__).parent.parent / "gpu_lowering"))
from lowering import Launch, lowered, run_lowered

REFUSED = {"unordered-access", "divergent-cooperative-op", "merged-shared-tiles"}
"""No point where the lanes meet for an order, or for a copy of a view that a loop hands on."""


def outcome(seed: int) -> str:
    """ "ran", or "refused" for want of a point where the lanes meet."""
    program = LaneProgram(seed)
    kernel = program.build()
    try:
        got, _ = agree(kernel, program.arguments(), 1, program.lanes, tiled=True)
        np.testing.assert_array_equal(got, program.want)
        launch = Launch(kernel, program.arguments(), (1, program.lanes), program.lanes)
        args, _ = run_lowered(*lowered(launch), launch)
        np.testing.assert_array_equal(args[0], program.want)
    except tg.CompileError as error:
        assert codes(error) <= REFUSED
        return "refused"
    except Exception:
        print(f"seed {seed}\n{program}")
        raise
    return "ran"


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tg.config, "cache_kernels", False)


@pytest.mark.parametrize("seed", [3, 14])
def test_accesses_are_in_the_order_of_statements(seed: int) -> None:
    assert outcome(seed) == "ran"


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(50))
def test_many_accesses_are_in_the_order_of_statements(chunk: int) -> None:
    outcomes = Counter(outcome(seed) for seed in range(1000 + 100 * chunk, 1100 + 100 * chunk))
    assert outcomes["ran"] >= 30, outcomes
