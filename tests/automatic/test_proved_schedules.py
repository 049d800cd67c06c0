"""Kernels get automatic roles wherever the schedule is proved, also with windows, steps and bounds that the launch, an
array or the tile determines."""

from __future__ import annotations

from typing import Any

import pytest
from scheduled_kernels import few_rows, half_transposed, narrow_result

import tegula as tg

TEXT = """
def matmul(
    A: tg.array2d[tg.bfloat16], B: tg.array2d[tg.bfloat16], C: tg.array2d[float], L: tg.array1d[int], n: int, m: int
):
    i, j = tg.tid()
    sum = tg.tile_zeros(shape=(64, 64), dtype=tg.float32)
    for k in range({bounds}):
        a = tg.tile_load(A, shape=(64, 64), offset=(i * 64, k * 64))
        b = tg.tile_load(B, shape=(64, 64), offset=(k * 64, j * 64))
        tg.tile_matmul(a, b, sum)
    tg.tile_store(C, sum, offset=(i * 64, j * 64))
"""


@pytest.mark.parametrize(
    "bounds", ["L[0]", "L[i], L[i + 1]", "tg.max(i - n, 0), tg.min(i + n, m)", "i + 1", "n // m"]
)
def test_loops_with_bounds_known_at_run_time_get_proved_roles(bounds: str) -> None:
    text = TEXT.format(bounds=bounds).lstrip()
    space: dict[str, Any] = {"tg": tg}
    exec(text, space)
    verdict = tg.kernel(source=text)(space["matmul"]).check()
    assert verdict.proved and verdict.automatic.startswith("fetch with"), verdict.message


@pytest.mark.parametrize("kernel", [narrow_result, half_transposed, few_rows])
def test_persistent_blocks_in_clusters_get_proved_roles(kernel: Any) -> None:
    verdict = kernel.check()
    assert verdict.proved and "persistent blocks" in verdict.automatic, verdict.message
