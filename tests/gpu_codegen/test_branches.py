"""Divergent threads of a warp reconverge before the end of a uniform branch, or after a branch that contains others
(docs/design/034)."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from gpu_code import lower_to_llvm

import tegula as tg

RECONVERGES = "call void @llvm.nvvm.bar.warp.sync(i32 -1)"
HALF, WHOLE = tg.constant(16), tg.constant(64)


@tg.kernel
def loaded(a: tg.array2d[float], b: tg.array2d[float]):
    i = tg.tid()
    x = tg.tile_load(a, shape=(1, HALF), offset=(i, 0))
    tg.tile_store(b, tg.tile_broadcast(tg.tile_sum(x), shape=(1, WHOLE)), offset=(i, 0))


@tg.kernel
def store_under_condition(a: tg.array2d[float], b: tg.array2d[float]):
    i = tg.tid()
    if a.shape[0] > 3:
        tg.tile_store(b, tg.tile_ones(shape=(1, HALF), dtype=float), offset=(i, 0), bounds_check=False)


@tg.kernel
def branch_per_lane(a: tg.array2d[float], b: tg.array2d[float]):
    i, j = tg.tid()
    if j < 7:
        if i > 2:
            b[i, j] = a[i, j] + 1.0
        else:
            b[i, j] = 0.0


def blocks(kernel: Any, threads: int = 64) -> dict[str, list[str]]:
    """The basic blocks of a kernel: their lines."""
    arguments = [np.zeros((8, 64), np.float32), np.zeros((8, 64), np.float32)]
    by_label: dict[str, list[str]] = {"start": []}
    current = "start"
    for line in lower_to_llvm(kernel, arguments, (8,), threads).text.splitlines():
        if label := re.match(r"(\w+):", line):
            current = label[1]
            by_label[current] = []
        else:
            by_label[current].append(line.strip())
    return by_label


@pytest.mark.parametrize("kernel", [loaded, store_under_condition])
def test_branches_end_after_all_threads_have_synchronised(kernel: Any) -> None:
    sides = [lines for lines in blocks(kernel).values() if any("label %endif" in line for line in lines)]
    diverged = [lines for lines in sides if RECONVERGES in lines]
    assert diverged
    for lines in diverged:
        assert lines.index(RECONVERGES) == len(lines) - 2


@tg.kernel
def next_to_others(a: tg.array2d[float], b: tg.array2d[float]):
    i, j = tg.tid()
    if j < 7:
        b[i, j] = a[i, j]


@pytest.mark.parametrize(
    ("kernel", "threads", "label"),
    [(branch_per_lane, 64, "endif"), (next_to_others, 40, "done")],
    ids=["all", "surplus"],
)
def test_diverged_threads_reconverge_at_the_end_of_a_loop(kernel: Any, threads: int, label: str) -> None:
    ((name, lines),) = (
        (name, lines) for name, lines in blocks(kernel, threads).items() if RECONVERGES in lines
    )
    assert name.startswith(label) and lines[:2] == [RECONVERGES, "ret void"]
