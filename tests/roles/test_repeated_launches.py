"""Repeated launches of schedules on fresh buffers: a single hang or wrong element fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import repeated_launches

import tegula as tg

SECONDS = 120
"""The time limit for all launches of a case, compilation included."""
LAUNCHES = {"cpu": 2, "cuda:0": 20 if os.environ.get("TEGULA_TESTS_UNDER") else 200}
"""The number of launches by device; fewer under a sanitizer, which is slow."""
CASE_SECONDS = {"matmuls": 55, "a chain with tensor cores": 24, "tiles of concurrent roles": 12}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            c,
            marks=[pytest.mark.seconds(CASE_SECONDS.get(c, 7)), *[pytest.mark.slow] * (c == "matmuls")],
        )
        for c in repeated_launches.CASES
    ],
)
def test_repeated_launches_of_roles_have_correct_results(case: str, on_device: str) -> None:
    command = [sys.executable, repeated_launches.__file__, case, on_device, str(LAUNCHES[on_device])]
    paths = os.pathsep.join([str(Path(tg.__file__).parents[1]), *sys.path])
    environment = {**os.environ, "PYTHONPATH": paths}
    try:
        completed = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=environment)
    except subprocess.TimeoutExpired as late:
        output_lines = (late.stdout or b"").decode(errors="replace").splitlines()
        raise AssertionError(f"no end after {output_lines[-1] if output_lines else 'nothing'}") from None
    assert completed.returncode == 0, completed.stderr[-2000:]
    assert completed.stdout.splitlines() == [variant.name for variant in repeated_launches.CASES[case]()]


@pytest.mark.machine_code
def test_a_wrong_element_of_a_repeated_launch_is_reported() -> None:
    variant = next(repeated_launches.matmuls())
    original = variant.expected
    variant.expected = lambda x: original(x) + np.eye(*original(x).shape, dtype=np.float32)
    with pytest.raises(
        AssertionError, match=r"one_consumer of 256 x 128, launch 0: 128 wrong, the first at \[0 0\]"
    ):
        repeated_launches.repeat(variant, 1)
