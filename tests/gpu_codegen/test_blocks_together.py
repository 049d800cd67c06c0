"""Blocks of one warp that share a CTA, run by the model of the instructions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu_code import assembled, lowered
from simt import run_together

import tegula as tg

BLOCKS = 7


@tg.kernel
def work(a: tg.array2d[float], gathered: tg.array2d[float], sums: tg.array1d[float], count: tg.array1d[int]):
    i = tg.tid()
    row = tg.tile_load(a[i], 32)
    order = (tg.tile_arange(32, dtype=int) * 5 + i) % 32
    tg.tile_store(gathered[i], row[order])
    tg.tile_store(sums[i : i + 1], tg.tile_sum(row[::-1] * row))
    tg.tile_atomic_add(count, tg.tile_full(1, i, dtype=int))


def arguments() -> list[Any]:
    a = np.arange(BLOCKS * 32, dtype=np.float32).reshape(BLOCKS, 32) % 19
    return [tg.array(a), tg.zeros((BLOCKS, 32)), tg.zeros(BLOCKS), tg.zeros(1, dtype=int)]


@pytest.mark.machine_code
@pytest.mark.parametrize("rows", [1, 4, 8])
def test_each_block_runs_once_with_memory_of_its_own(rows: int) -> None:
    args = arguments()
    code = lowered(work, args, (BLOCKS,), 32)
    assert code.together == 8 and code.part_bytes >= 128
    run_together(code, work, args, (BLOCKS, 32), -(-BLOCKS // rows), rows=rows)
    a, places = args[0].numpy(), np.arange(32) * 5
    want = np.stack([a[i, (places + i) % 32] for i in range(BLOCKS)])
    np.testing.assert_array_equal(args[1].numpy(), want)
    np.testing.assert_array_equal(args[2].numpy(), (a * a[:, ::-1]).sum(1))
    assert args[3].numpy()[0] == sum(range(BLOCKS))


@tg.kernel
def doubled(a: tg.array1d[float], b: tg.array1d[float]):
    i, j = tg.tid()
    b[i * 20 + j] = 2.0 * a[i * 20 + j]


@pytest.mark.machine_code
@pytest.mark.parametrize("rows", [2, 8])
def test_threads_without_a_lane_and_warps_without_a_block_do_nothing(rows: int) -> None:
    a, b = tg.array(np.arange(200, dtype=np.float32)), tg.zeros(200)
    code = lowered(doubled, [a, b], (5,), 20)
    run_together(code, doubled, [a, b], (5, 20), -(-5 // rows), rows=rows)
    np.testing.assert_array_equal(b.numpy(), np.where(np.arange(200) < 100, 2 * a.numpy(), 0))


@tg.kernel
def column_sums(a: tg.array2d[tg.float64], sums: tg.array1d[tg.float64]):
    i = tg.tid()
    tg.tile_atomic_add(sums, tg.tile_load(a[i], 64))


@pytest.mark.machine_code
@pytest.mark.parametrize(("rows", "ctas"), [(4, 1), (2, 3), (8, 2)])
def test_combined_blocks_of_several_warps_run_every_block_once(rows: int, ctas: int) -> None:
    a, sums = tg.array(np.arange(640.0).reshape(10, 64)), tg.ones(64, dtype=tg.float64)
    code = lowered(column_sums, [a, sums], (10,), 32)
    run_together(code, column_sums, [a, sums], (10, 32), ctas, rows=rows)
    np.testing.assert_array_equal(sums.numpy(), 1 + a.numpy().sum(0))


@tg.kernel
def large(a: tg.array2d[float], b: tg.array2d[float]):
    i = tg.tid()
    x = tg.tile_load(a[i], 7000, storage="shared")
    tg.tile_store(b[i], x[tg.tile_arange(7000, dtype=int) ^ 1])


def test_blocks_of_several_warps_or_with_much_shared_memory_have_a_cta_each() -> None:
    rows = [tg.zeros((1, 7000)) for _ in range(2)]
    assert lowered(large, rows, (1,), 32).together == 1
    assert lowered(work, arguments(), (BLOCKS,), 64).together == 1


def test_warps_know_that_they_have_one_block_each() -> None:
    """ptxas would duplicate code for threads that may diverge."""
    text, made = assembled(lowered(work, arguments(), (BLOCKS,), 32))
    assert ".maxntid 32, 8" in text and "bar.sync" not in text
    assert "COLLECTIVE" not in made.sass()
