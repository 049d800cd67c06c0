"""Launches that are resolved once: later elements, other modes, ranges of threads."""

from __future__ import annotations

import numpy as np
import pytest

import tegula as tg
from tegula.runtime.prepared import PreparedLaunch, RepeatedLaunch

pytestmark = pytest.mark.machine_code


@tg.kernel
def add_at(positions: tg.array1d[int], out: tg.array1d[float], first: int):
    """Add the number of the thread to an element."""
    i = first + tg.tid()
    out[positions[i]] = out[positions[i]] + float(i)


def test_a_prepared_launch_reads_present_elements() -> None:
    positions, out = tg.array([2, 0, 1], dtype=int), tg.zeros(3)
    launch = PreparedLaunch(add_at, 2, [positions, out, 1])
    launch.run()
    positions.assign(np.array([1, 2, 0], np.int32))
    launch.run()
    assert out.numpy().tolist() == [1 + 2, 2, 1]


def test_a_prepared_launch_follows_the_debug_mode() -> None:
    positions, out = tg.array([0, 1], dtype=int), tg.zeros(2)
    launch = PreparedLaunch(add_at, 2, [positions, out, 0])
    launch.run()
    tg.config.mode = "debug"
    try:
        positions.assign(np.array([0, 5], np.int32))
        with pytest.raises(tg.RunError):
            launch.run()
    finally:
        tg.config.mode = "release"


def test_repeated_launches_run_ranges_of_threads_in_order() -> None:
    launch = RepeatedLaunch(add_at)
    for size in (5, 7):
        positions, out = tg.array(np.arange(size), dtype=int), tg.zeros(size)
        launch.run_in_order([2, size - 2], [positions, out])
        assert out.numpy().tolist() == list(range(size))
    with pytest.raises(tg.LaunchError, match="takes 3 arguments"):
        launch.run_in_order([1], [positions])
