"""Divergent threads of a warp reconverge before the end of a uniform branch, and at the end of a loop over blocks
(docs/design/034)."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from gpu_code import lower_to_llvm

import tegula as tg

RECONVERGENCE = "call void @llvm.nvvm.bar.warp.sync(i32 -1)"
NARROW_WIDTH, WIDE_WIDTH = tg.constant(16), tg.constant(64)


@tg.kernel
def broadcast_sums(a: tg.array2d[float], b: tg.array2d[float]):
    i = tg.tid()
    x = tg.tile_load(a, shape=(1, NARROW_WIDTH), offset=(i, 0))
    tg.tile_store(b, tg.tile_broadcast(tg.tile_sum(x), shape=(1, WIDE_WIDTH)), offset=(i, 0))


@tg.kernel
def store_under_condition(a: tg.array2d[float], b: tg.array2d[float]):
    i = tg.tid()
    if a.shape[0] > 3:
        tg.tile_store(
            b, tg.tile_ones(shape=(1, NARROW_WIDTH), dtype=float), offset=(i, 0), bounds_check=False
        )


@tg.kernel
def branch_per_lane(a: tg.array2d[float], b: tg.array2d[float]):
    i, j = tg.tid()
    if j < 7:
        if i > 2:
            b[i, j] = a[i, j] + 1.0
        else:
            b[i, j] = 0.0


def basic_blocks(kernel: Any, threads: int = 64) -> dict[str, list[str]]:
    """The lines of each basic block of a kernel, by label."""
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


@pytest.mark.parametrize("kernel", [broadcast_sums, store_under_condition])
def test_branches_end_after_all_threads_have_synchronised(kernel: Any) -> None:
    branch_ends = [
        lines for lines in basic_blocks(kernel).values() if any("label %endif" in line for line in lines)
    ]
    divergent_ends = [lines for lines in branch_ends if RECONVERGENCE in lines]
    assert divergent_ends
    for lines in divergent_ends:
        assert lines.index(RECONVERGENCE) == len(lines) - 2


@tg.kernel
def copy_columns(a: tg.array2d[float], b: tg.array2d[float]):
    i, j = tg.tid()
    if j < 7:
        b[i, j] = a[i, j]


@pytest.mark.parametrize(
    ("kernel", "threads", "label"),
    [(branch_per_lane, 64, "endif"), (copy_columns, 40, "done")],
    ids=["all", "surplus"],
)
def test_diverged_threads_reconverge_at_the_end_of_a_loop(kernel: Any, threads: int, label: str) -> None:
    ((name, lines),) = (
        (name, lines) for name, lines in basic_blocks(kernel, threads).items() if RECONVERGENCE in lines
    )
    assert name.startswith(label) and lines[:2] == [RECONVERGENCE, "ret void"]
