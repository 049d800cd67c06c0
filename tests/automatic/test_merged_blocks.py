"""Neighbouring blocks of a launch whose tiles one CTA computes as one longer tile."""

from __future__ import annotations

from typing import Any

import agreement
import numpy as np
import pytest
from forced import HOPPER, as_written, interpreted, prepared, rewritten, same
from scheduled_kernels import Launch, arrays, bf16, gemm

import tegula as tg
from tegula.dataclass import replace
from tegula.passes.pipeline import prepare
from tegula.passes.specialise import Choice, make_roles
from tegula.runtime.merge_limits import merge_limits


def matmul_of(tm: int, tn: int, tk: int) -> Any:
    @tg.kernel
    def matmul(a: tg.array2d[bf16], b: tg.array2d[bf16], c: tg.array2d[bf16]):
        i, j = tg.tid()
        total = tg.tile_zeros(shape=(tm, tn), dtype=float)
        for k in range((a.shape[1] + tk - 1) // tk):
            x = tg.tile_load(a, shape=(tm, tk), offset=(i * tm, k * tk))
            tg.tile_matmul(x, tg.tile_load(b, shape=(tk, tn), offset=(k * tk, j * tn)), total)
        tg.tile_store(c, tg.tile_astype(total, bf16), offset=(i * tm, j * tn))

    return matmul


@tg.func
def tile_of_matmul(a: tg.array2d[bf16], b: tg.array2d[bf16], i: int, j: int):
    """Tile (i, j) of a @ b, of 64 x 64 elements."""
    total = tg.tile_zeros(shape=(64, 64), dtype=float)
    for k in range(a.shape[1] // 64):
        x = tg.tile_load(a, shape=(64, 64), offset=(i * 64, k * 64))
        tg.tile_matmul(x, tg.tile_load(b, shape=(64, 64), offset=(k * 64, j * 64)), total)
    return total


@tg.kernel
def with_bias(a: tg.array2d[bf16], b: tg.array2d[bf16], bias: tg.array1d[bf16], c: tg.array2d[bf16]):
    i, j = tg.tid()
    total = tg.tile_zeros(shape=(64, 64), dtype=float)
    for k in range(a.shape[1] // 32):
        x = tg.tile_load(a, shape=(64, 32), offset=(i * 64, k * 32))
        y = tg.tile_transpose(tg.tile_load(b, shape=(64, 32), offset=(j * 64, k * 32)))
        tg.tile_matmul(x, y, total)
    row = tg.tile_reshape(tg.tile_load(bias, shape=64, offset=j * 64), shape=(1, 64))
    total = total * 2.0 + tg.tile_broadcast(tg.tile_astype(row, float), shape=(64, 64))
    tg.tile_store(c, tg.tile_astype(total, bf16), offset=(i * 64, j * 64))


@tg.kernel
def row_sums(a: tg.array2d[bf16], b: tg.array2d[bf16], sums: tg.array2d[float], c: tg.array2d[bf16]):
    i, j = tg.tid()
    total = tile_of_matmul(a, b, i, j)
    line = tg.tile_reshape(tg.tile_sum(total, axis=1), shape=(64, 1))
    tg.tile_store(sums, line, offset=(i * 64, j))
    tg.tile_store(c, tg.tile_astype(total, bf16), offset=(i * 64, j * 64))


@tg.kernel
def rows_of_matmul(a: tg.array2d[bf16], b: tg.array2d[bf16], c: tg.array2d[float]):
    i = tg.tid()
    tg.tile_store(c, tile_of_matmul(a, b, i, 0) * 0.5, offset=(i * 64, 0))


@tg.kernel
def batched(a: tg.array3d[bf16], b: tg.array3d[bf16], c: tg.array3d[float]):
    n, i, j = tg.tid()
    total = tg.tile_zeros(shape=(64, 64), dtype=float)
    for k in range(a.shape[2] // 64):
        x = tg.tile_load(a[n], shape=(64, 64), offset=(i * 64, k * 64))
        tg.tile_matmul(x, tg.tile_load(b[n], shape=(64, 64), offset=(k * 64, j * 64)), total)
    tg.tile_store(c[n], total, offset=(i * 64, j * 64))


SUMS = arrays((192, 128), (128, 320), (192, 5), (192, 320), types=(bf16, bf16, tg.float32))
BIASED = arrays((192, 64), (320, 64), (320,), (192, 320))
BATCHES = arrays((2, 192, 64), (2, 64, 320), (2, 192, 320), out=float)
CASES = {
    "columns": (Launch(matmul_of(128, 96, 32), gemm(256, 288, 96), (2, 3)), (1, 2)),
    "columns of an edge": (Launch(matmul_of(128, 96, 32), gemm(200, 472, 96), (2, 5)), (1, 2)),
    "rows": (Launch(matmul_of(64, 128, 32), gemm(300, 256, 96), (5, 2)), (4, 1)),
    "rows and columns": (Launch(matmul_of(64, 64, 32), gemm(330, 200, 64), (6, 4)), (2, 4)),
    "fewer blocks than tiles": (Launch(matmul_of(64, 64, 32), gemm(330, 320, 64), (3, 3)), (2, 2)),
    "sums of rows": (Launch(row_sums, SUMS, (3, 5)), (2, 1)),
    "a bias of the columns": (Launch(with_bias, BIASED, (3, 5)), (2, 4)),
    "no iteration": (Launch(matmul_of(64, 64, 32), gemm(200, 200, 0), (4, 4)), (2, 2)),
    "a grid of rows": (Launch(rows_of_matmul, gemm(330, 64, 128, out=float), (6,)), (4,)),
    "batches": (Launch(batched, BATCHES, (2, 3, 5)), (1, 2, 4)),
}


@pytest.mark.parametrize("case", CASES)
def test_merged_blocks_store_the_same_elements(case: str) -> None:
    launch, merge = CASES[case]
    kernel, schedule = rewritten(launch, Choice(merge=merge))
    assert schedule.plan is not None, schedule.reason
    assert f"each of {'x'.join(map(str, merge))} blocks of the launch" in str(schedule)
    same(interpreted(kernel, launch), as_written(launch), launch.exact)


def test_elements_beyond_the_blocks_of_a_launch_stay() -> None:
    launch, merge = CASES["fewer blocks than tiles"]
    kernel, _ = rewritten(launch, Choice(merge=merge))
    *_, c = interpreted(kernel, launch)
    a, b, _ = (np.asarray(v.numpy(), np.float64) for v in launch.arguments())
    wanted = np.zeros((330, 320))
    wanted[:192, :192] = (a @ b)[:192, :192]
    assert np.array_equal(np.asarray(c, np.float64), wanted)


@tg.kernel
def in_place(a: tg.array2d[bf16], b: tg.array2d[bf16], c: tg.array2d[float]):
    i, j = tg.tid()
    total = tg.tile_load(c, shape=(64, 64), offset=(i * 64, j * 64))
    for k in range(a.shape[1] // 64):
        x = tg.tile_load(a, shape=(64, 64), offset=(i * 64, k * 64))
        tg.tile_matmul(x, tg.tile_load(b, shape=(64, 64), offset=(k * 64, j * 64)), total)
    tg.tile_store(c, total, offset=(i * 64, j * 64))


@tg.kernel
def added(a: tg.array2d[bf16], b: tg.array2d[bf16], c: tg.array2d[float]):
    i, j = tg.tid()
    total = tile_of_matmul(a, b, i, j)
    tg.tile_atomic_add(c, total, offset=(i * 64, j * 64))


@pytest.mark.parametrize("kernel", [in_place, added], ids=["in_place", "added"])
def test_blocks_that_change_elements_merge_if_they_divide_the_grid(kernel: Any) -> None:
    launch = Launch(kernel, gemm(256, 256, 128, out=float), (4, 4))
    traced = prepared(launch)
    traced.launch = replace(traced.launch, whole_merges=(4, 2))
    schedule = make_roles(traced, HOPPER, Choice(merge=(2, 2)))
    assert schedule.plan is not None, schedule.reason
    same(interpreted(traced, launch), as_written(launch), launch.exact)
    again = prepared(launch)
    again.launch = replace(again.launch, whole_merges=(4, 2))
    assert make_roles(again, HOPPER, Choice(merge=(2, 4))).reason.endswith("cannot be computed twice")


@tg.kernel
def summed_over_columns(a: tg.array2d[bf16], b: tg.array2d[bf16], c: tg.array2d[float]):
    """Blocks with the same i add to the same elements."""
    i, j = tg.tid()
    total = tg.tile_zeros(shape=(64, 64), dtype=float)
    for k in range(a.shape[1] // 64):
        x = tg.tile_load(a, shape=(64, 64), offset=(i * 64, k * 64))
        tg.tile_matmul(x, tg.tile_load(b, shape=(64, 64), offset=(k * 64, i * 64)), total)
    tg.tile_atomic_add(c, total, offset=(i * 64, 0))


def test_blocks_that_add_to_the_same_elements_stay_separate() -> None:
    traced = prepared(Launch(summed_over_columns, gemm(256, 256, 128, out=float), (4, 4)))
    traced.launch = replace(traced.launch, whole_merges=(4, 4))
    schedule = make_roles(traced, HOPPER, Choice(merge=(1, 2)))
    assert schedule.plan is None
    assert "neighbouring blocks" in schedule.reason or "no tile depends" in schedule.reason


@tg.kernel
def apart(a: tg.array2d[bf16], b: tg.array2d[bf16], c: tg.array2d[float]):
    i, j = tg.tid()
    total = tg.tile_zeros(shape=(64, 64), dtype=float)
    for k in range(a.shape[1] // 64):
        x = tg.tile_load(a, shape=(64, 64), offset=(i * 64, k * 64))
        tg.tile_matmul(x, tg.tile_load(b, shape=(64, 64), offset=(k * 64, j * 128)), total)
    tg.tile_store(c, total, offset=(i * 64, j * 64))


@tg.kernel
def masked(a: tg.array2d[bf16], b: tg.array2d[bf16], c: tg.array2d[float]):
    i, j = tg.tid()
    total = tile_of_matmul(a, b, i, j)
    tg.tile_store(c, total * float(j), offset=(i * 64, j * 64))


@tg.kernel
def normalised(a: tg.array2d[bf16], b: tg.array2d[bf16], c: tg.array2d[float]):
    i, j = tg.tid()
    total = tile_of_matmul(a, b, i, j)
    peak = tg.tile_reshape(tg.tile_max(total, axis=1), shape=(64, 1))
    tg.tile_store(c, total - tg.tile_broadcast(peak, shape=(64, 64)), offset=(i * 64, j * 64))


@tg.kernel
def one_bias(a: tg.array2d[bf16], b: tg.array2d[bf16], c: tg.array2d[float]):
    i, j = tg.tid()
    total = tile_of_matmul(a, b, i, j)
    corner = tg.tile_astype(tg.tile_load(b, shape=(64, 64), offset=(0, 0)), float)
    tg.tile_store(c, total + corner, offset=(i * 64, j * 64))


@tg.kernel
def triangle(a: tg.array2d[bf16], b: tg.array2d[bf16], c: tg.array2d[float]):
    i, j = tg.tid()
    total = tg.tile_zeros(shape=(64, 64), dtype=float)
    for k in range(j + 1):
        x = tg.tile_load(a, shape=(64, 64), offset=(i * 64, k * 64))
        tg.tile_matmul(x, tg.tile_load(b, shape=(64, 64), offset=(k * 64, j * 64)), total)
    tg.tile_store(c, total, offset=(i * 64, j * 64))


@tg.kernel
def squares(a: tg.array2d[bf16], b: tg.array2d[bf16], c: tg.array2d[float]):
    """The right operand's other axis, the one that the matmul sums, depends on the block."""
    i, j = tg.tid()
    total = tg.tile_zeros(shape=(64, 64), dtype=float)
    for k in range(a.shape[1] // 64):
        x = tg.tile_load(a, shape=(64, 64), offset=(k * 64, j * 64))
        tg.tile_matmul(x, tg.tile_load(b, shape=(64, 64), offset=(j * 64, i * 64)), total)
    tg.tile_store(c, total, offset=(j * 64, i * 64))


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (in_place, "cannot be computed twice"),
        (added, "cannot be computed twice"),
        (apart, "do not follow each other"),
        (masked, "depends on the index of the block"),
        (normalised, "combines elements along the axis"),
        (one_bias, "does not grow with the block"),
        (triangle, "depends on the index of the block"),
        (squares, "two axes|combines elements along the axis"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_other_blocks_stay_separate(kernel: Any, reason: str) -> None:
    launch = Launch(kernel, gemm(256, 256, 256, out=float), (4, 4))
    _, schedule = rewritten(launch, Choice(merge=(1, 2)))
    assert schedule.plan is None
    assert any(part in schedule.reason for part in reason.split("|")), schedule.reason


def chosen(kernel: Any, grid: tuple[int, ...]) -> tuple[int, ...]:
    """The blocks that are merged for a launch of a grid that is too large for the interpreter."""
    traced = agreement.traced(kernel, gemm(256, 256, 256)(), (1,) * len(grid) + (128,), 128)
    merges, whole, use = merge_limits((*grid, 128), 128)
    traced.launch = replace(traced.launch, merges=merges, whole_merges=whole, merged_use=use)
    prepare(traced)
    schedule = make_roles(traced, HOPPER)
    assert schedule.plan is not None, schedule.reason
    return schedule.plan.merge


@pytest.mark.parametrize(
    ("tile", "grid", "merge"),
    [
        ((128, 256, 64), (32, 32), ()),
        ((128, 128, 64), (32, 32), (1, 2)),
        ((128, 96, 64), (32, 43), (1, 2)),
        ((64, 256, 64), (64, 16), (2, 1)),
        ((64, 64, 32), (64, 64), (2, 4)),
        ((64, 64, 32), (8, 8), ()),
        ((128, 128, 64), (17, 16), ()),
    ],
)
def test_small_tiles_of_large_grids_are_merged(
    tile: tuple[int, int, int], grid: tuple[int, int], merge: tuple[int, ...]
) -> None:
    assert chosen(matmul_of(*tile), grid) == merge


def test_limits_say_how_busy_merged_blocks_keep_the_multiprocessors() -> None:
    """270 blocks of 2 take three turns of 132 multiprocessors, 540 blocks take five turns of half the time."""
    assert merge_limits((27, 20, 128), 128) == ((4, 4), (1, 4), (0.75, 0.0, 0.0, 0.0, 0.0))
    assert merge_limits((13, 40, 128), 128) == ((), (), ())
    assert merge_limits((33, 16, 128), 128)[2][0] == 1.0
    assert merge_limits((33, 16, 64), 128) == ((), (), ())
