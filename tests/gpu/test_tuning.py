"""Tuned kernels on a GPU: the correct result, times of the device, and the same choice from the disk."""

from __future__ import annotations

import numpy as np

import tegula as tg
from tegula.tune import tuned

REPEATS = 1


@tg.kernel
def long_loop(x: tg.array1d[float], y: tg.array1d[float]):
    i = tg.tid()
    total = x[i]
    for _ in range(REPEATS):
        total = tg.sin(total)
    y[i] = x[i] + 1.0 if total < 2.0 else 0.0


def test_the_fastest_tuned_candidate_runs() -> None:
    n = 1 << 20
    x, y = tg.ones(n, device="cuda:0"), tg.zeros(n, device="cuda:0")
    for remembered in (False, True):
        kernel = tg.autotune(REPEATS=[4000, 1, 6000], block_dim=[128])(long_loop)
        tg.launch(kernel, n, [x], [y])
        assert np.all(y.numpy() == 2.0)
        report = kernel.reports[0]
        assert report.outcomes[report.chosen].candidate.values["REPEATS"] == 1
        assert report.remembered is remembered
    assert isinstance(kernel, tuned.Tuned)
