"""Logical blocks of another size than the blocks of the launch."""

from __future__ import annotations

import json
from fractions import Fraction
from random import Random
from typing import Any

import agreement
import numpy as np
import pytest
from role_rewriting import (
    HOPPER,
    assert_equal_results,
    interpreted,
    prepared,
    results_without_roles,
    rewritten,
)
from scheduled_kernels import Launch, arrays, bf16, gemm

import tegula as tg
from tegula.dataclass import replace
from tegula.ir import Scale
from tegula.ops.tile import TileAtomic
from tegula.passes.pipeline import prepare
from tegula.passes.specialise import BlockCosts, Choice, block_costs, make_roles

MULTIPROCESSORS = 132


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


def with_bias_of(tm: int, tn: int, tk: int) -> Any:
    @tg.kernel
    def with_bias(a: tg.array2d[bf16], b: tg.array2d[bf16], bias: tg.array1d[bf16], c: tg.array2d[bf16]):
        i, j = tg.tid()
        total = tg.tile_zeros(shape=(tm, tn), dtype=float)
        for k in range(a.shape[1] // tk):
            x = tg.tile_load(a, shape=(tm, tk), offset=(i * tm, k * tk))
            y = tg.tile_transpose(tg.tile_load(b, shape=(tn, tk), offset=(j * tn, k * tk)))
            tg.tile_matmul(x, y, total)
        row = tg.tile_reshape(tg.tile_load(bias, shape=tn, offset=j * tn), shape=(1, tn))
        total = total * 2.0 + tg.tile_broadcast(tg.tile_astype(row, float), shape=(tm, tn))
        tg.tile_store(c, tg.tile_astype(total, bf16), offset=(i * tm, j * tn))

    return with_bias


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
    "longer columns": (Launch(matmul_of(128, 96, 32), gemm(256, 288, 96), (2, 3)), "1 2"),
    "columns of an edge": (Launch(matmul_of(128, 96, 32), gemm(200, 472, 96), (2, 5)), "1 2"),
    "longer rows": (Launch(matmul_of(64, 128, 32), gemm(300, 256, 96), (5, 2)), "4 1"),
    "rows and columns": (Launch(matmul_of(64, 64, 32), gemm(330, 200, 64), (6, 4)), "2 4"),
    "fewer blocks than tiles": (Launch(matmul_of(64, 64, 32), gemm(330, 320, 64), (3, 3)), "2 2"),
    "shorter columns": (Launch(matmul_of(128, 256, 32), gemm(200, 904, 64), (2, 4)), "1 3/4"),
    "half columns": (Launch(matmul_of(128, 256, 32), gemm(256, 504, 64), (2, 2)), "1 1/2"),
    "shorter rows": (Launch(matmul_of(256, 128, 32), gemm(700, 256, 64), (3, 2)), "1/2 1"),
    "longer rows, shorter columns": (Launch(matmul_of(64, 256, 32), gemm(300, 600, 64), (5, 3)), "2 3/4"),
    "columns of 80": (Launch(matmul_of(128, 80, 32), gemm(256, 560, 64), (2, 7)), "1 8/5"),
    "rows of 96": (Launch(matmul_of(96, 128, 32), gemm(450, 256, 64), (5, 2)), "4/3 1"),
    "sums of rows": (Launch(row_sums, SUMS, (3, 5)), "2 1"),
    "a bias of the columns": (Launch(with_bias_of(64, 64, 32), BIASED, (3, 5)), "2 4"),
    "a bias of longer columns": (Launch(with_bias_of(64, 64, 32), BIASED, (3, 5)), "2 3"),
    "no iteration": (Launch(matmul_of(64, 64, 32), gemm(200, 200, 0), (4, 4)), "2 2"),
    "a grid of rows": (Launch(rows_of_matmul, gemm(330, 64, 128, out=float), (6,)), "4"),
    "batches": (Launch(batched, BATCHES, (2, 3, 5)), "1 2 4"),
}


def scale_of(text: str) -> Scale:
    """The scale that a text like "1 3/4" describes."""
    return tuple(Fraction(word).as_integer_ratio() for word in text.split())


@pytest.mark.parametrize("case", CASES)
def test_blocks_of_another_size_store_the_same_elements(case: str) -> None:
    launch, scale = CASES[case]
    kernel, schedule = rewritten(launch, Choice(scale=scale_of(scale)))
    assert schedule.plan is not None, schedule.reason
    assert f"each of {scale.replace(' ', 'x')} blocks of the launch" in str(schedule)
    assert_equal_results(interpreted(kernel, launch), results_without_roles(launch), launch.exact)


def test_elements_beyond_the_blocks_of_a_launch_are_unchanged() -> None:
    launch, scale = CASES["fewer blocks than tiles"]
    kernel, _ = rewritten(launch, Choice(scale=scale_of(scale)))
    *_, c = interpreted(kernel, launch)
    a, b, _ = (np.asarray(v.numpy(), np.float64) for v in launch.arguments())
    expected = np.zeros((330, 320))
    expected[:192, :192] = (a @ b)[:192, :192]
    assert np.array_equal(np.asarray(c, np.float64), expected)


@tg.kernel
def matmul_in_place(a: tg.array2d[bf16], b: tg.array2d[bf16], c: tg.array2d[float]):
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


@pytest.mark.parametrize("kernel", [matmul_in_place, added], ids=["matmul_in_place", "added"])
def test_blocks_that_change_elements_have_sizes_that_divide_the_launch(kernel: Any) -> None:
    launch = Launch(kernel, gemm(256, 256, 128, out=float), (4, 4))
    scaled, schedule = rewritten(launch, Choice(scale=scale_of("2 2")))
    assert schedule.plan is not None, schedule.reason
    assert_equal_results(interpreted(scaled, launch), results_without_roles(launch), launch.exact)
    costs = block_costs(prepared(launch), HOPPER)
    assert costs.once
    for grid in ((64, 64), (63, 64), (64, 66)):
        scale = costs.best(grid, MULTIPROCESSORS)
        assert scale and all(n * down % up == 0 for n, (up, down) in zip(grid, scale, strict=True))


@tg.kernel
def summed_over_columns(a: tg.array2d[bf16], b: tg.array2d[bf16], c: tg.array2d[float]):
    """Blocks with the same i add to the same elements."""
    i, j = tg.tid()
    total = tg.tile_zeros(shape=(64, 64), dtype=float)
    for k in range(a.shape[1] // 64):
        x = tg.tile_load(a, shape=(64, 64), offset=(i * 64, k * 64))
        tg.tile_matmul(x, tg.tile_load(b, shape=(64, 64), offset=(k * 64, i * 64)), total)
    tg.tile_atomic_add(c, total, offset=(i * 64, 0))


def test_blocks_that_add_to_the_same_elements_are_not_merged() -> None:
    traced = prepared(Launch(summed_over_columns, gemm(256, 256, 128, out=float), (4, 4)))
    schedule = make_roles(traced, HOPPER, Choice(scale=scale_of("1 2")))
    assert schedule.plan is None
    assert "neighbouring blocks" in schedule.reason or "no tile depends" in schedule.reason


@tg.kernel
def separate_blocks(a: tg.array2d[bf16], b: tg.array2d[bf16], c: tg.array2d[float]):
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
        (separate_blocks, "do not follow each other"),
        (masked, "depends on the index of the block"),
        (normalised, "combines elements along the axis"),
        (one_bias, "does not grow with the block"),
        (triangle, "depends on the index of the block"),
        (squares, "two axes|combines elements along the axis"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_kernels_without_logical_blocks_have_a_reason(kernel: Any, reason: str) -> None:
    launch = Launch(kernel, gemm(256, 256, 256, out=float), (4, 4))
    _, schedule = rewritten(launch, Choice(scale=scale_of("1 2")))
    assert schedule.plan is None
    assert any(part in schedule.reason for part in reason.split("|")), schedule.reason


def sums_of(tm: int, tn: int) -> Any:
    """c += (a @ b) @ b.T, of which each block adds the terms of its columns of b."""

    @tg.kernel
    def sums(a: tg.array2d[bf16], b: tg.array2d[bf16], c: tg.array2d[float]):
        i, j = tg.tid()
        total = tg.tile_zeros(shape=(tm, tn), dtype=float)
        for k in range(a.shape[1] // 64):
            x = tg.tile_load(a, shape=(tm, 64), offset=(i * tm, k * 64))
            tg.tile_matmul(x, tg.tile_load(b, shape=(64, tn), offset=(k * 64, j * tn)), total)
        left = tg.tile_astype(total, bf16)
        for k in range(a.shape[1] // 64):
            y = tg.tile_load(b, shape=(64, tn), offset=(k * 64, j * tn))
            part = tg.tile_zeros(shape=(tm, 64), dtype=float)
            tg.tile_matmul(left, tg.tile_transpose(y), part)
            tg.tile_atomic_add(c, part, offset=(i * tm, k * 64))

    return sums


@pytest.mark.parametrize(
    ("tile", "scale"),
    [((64, 64), "2 1"), ((64, 64), "1 3"), ((128, 256), "1 1/2"), ((128, 128), "1 3/2"), ((128, 64), "2 2")],
)
def test_blocks_may_add_more_or_fewer_terms_of_a_sum(tile: tuple[int, int], scale: str) -> None:
    tm, tn = tile
    columns = 512 if tn == 256 else 6 * tn
    arguments = arrays((4 * tm, 128), (128, columns), (4 * tm, 128), out=float)
    launch = Launch(sums_of(tm, tn), arguments, (4, columns // tn))
    assert {s for s, _ in block_costs(prepared(launch), HOPPER).cycles} >= {scale_of("1 1")}
    scaled, schedule = rewritten(launch, Choice(scale=scale_of(scale)))
    assert schedule.plan is not None, schedule.reason
    assert_equal_results(interpreted(scaled, launch), results_without_roles(launch), launch.exact)


def test_blocks_that_add_without_atomics_have_no_fewer_terms() -> None:
    """The only block that adds to an element must not become two."""
    launch = Launch(sums_of(128, 128), arrays((128, 128), (128, 128), (128, 128), out=float), (1, 1))
    kernel = prepared(launch)
    for op in kernel.walk():
        if isinstance(op, TileAtomic):
            op.exclusive = True
    assert "combines elements" in make_roles(kernel, HOPPER, Choice(scale=scale_of("1 1/2"))).reason


@tg.kernel
def promised(a: tg.array2d[bf16], b: tg.array2d[bf16], c: tg.array2d[float]):
    i, j = tg.tid()
    total = tg.tile_zeros(shape=(64, 128), dtype=float)
    for k in range(a.shape[1] // 64):
        x = tg.tile_load(a, shape=(64, 64), offset=(i * 64, k * 64))
        tg.tile_matmul(x, tg.tile_load(b, shape=(64, 128), offset=(k * 64, j * 128)), total)
    tg.tile_store(c, total, offset=(i * 64, j * 128), aligned=True)


def test_promised_alignment_holds_for_starts_of_whole_blocks_only() -> None:
    launch = Launch(promised, gemm(256, 256, 64, out=float), (4, 2))
    assert rewritten(launch, Choice(scale=scale_of("2 2")))[1].plan is not None
    assert "alignment of this tile" in rewritten(launch, Choice(scale=scale_of("2 1/2")))[1].reason


def chosen_block_size(kernel: Any, grid: tuple[int, ...]) -> str:
    """The best size for a launch of a grid that is too large for the interpreter, as "1 3/4"."""
    traced = agreement.traced(kernel, gemm(256, 256, 256)(), (1,) * len(grid) + (128,), 128)
    prepare(traced)
    best = block_costs(traced, HOPPER).best(grid, MULTIPROCESSORS)
    traced.launch = replace(traced.launch, scale=best)
    schedule = make_roles(traced, HOPPER)
    assert schedule.plan is not None, schedule.reason
    assert schedule.plan.scale == best
    return " ".join(str(Fraction(*factor)) for factor in schedule.plan.scale)


@pytest.mark.parametrize(
    ("tile", "grid", "scale"),
    [
        ((128, 256, 64), (32, 32), ""),
        ((128, 128, 64), (32, 32), "1 2"),
        ((128, 96, 64), (32, 43), "2 4/3"),
        ((64, 256, 64), (64, 16), "2 1"),
        ((64, 64, 32), (64, 64), "2 4"),
        ((32, 32, 32), (128, 128), "4 8"),
        ((80, 80, 64), (52, 52), "8/5 12/5"),
        ((128, 256, 64), (12, 6), "1 3/4"),
        ((128, 256, 64), (8, 8), "1 1/2"),
        ((128, 256, 64), (16, 8), ""),
        ((64, 64, 64), (8, 8), ""),
        ((128, 128, 64), (2, 2), "1/2 1/2"),
    ],
)
def test_blocks_are_large_in_launches_of_many_and_small_where_multiprocessors_would_be_idle(
    tile: tuple[int, int, int], grid: tuple[int, int], scale: str
) -> None:
    assert chosen_block_size(matmul_of(*tile), grid) == scale


def test_costs_read_from_json_choose_the_same_sizes() -> None:
    traced = agreement.traced(matmul_of(128, 96, 64), gemm(256, 256, 256)(), (1, 1, 128), 128)
    prepare(traced)
    costs = block_costs(traced, HOPPER)
    restored = BlockCosts.from_json(json.loads(json.dumps(costs.json())))
    assert restored == costs and restored.best((32, 43), MULTIPROCESSORS)


def test_a_block_is_never_larger_than_the_launch() -> None:
    costs = BlockCosts(((((1, 1), (1, 1)), 10.0), (((4, 1), (1, 1)), 1.0), (((2, 1), (3, 4)), 1.0)))
    assert costs.best((3, 3), 1) == ((2, 1), (3, 4))
    assert costs.best((1, 3), 1) == ()
    assert costs.best((0, 3), 1) == ()
    assert costs.best((4, 1), 1) == ((4, 1), (1, 1))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
def test_random_sizes_of_random_blocks_store_the_same_elements(seed: int) -> None:
    random = Random(seed)
    tm, tn, tk = (random.choice(lengths) for lengths in ((32, 64, 96, 128, 192), (48, 80, 96, 256), (32, 64)))
    rows, columns = (random.randint(1, most) for most in (5, 6))
    m, n, k = (
        rows * tm - 8 * random.randrange(4),
        columns * tn - 8 * random.randrange(4),
        tk * random.randrange(3),
    )
    kernel = with_bias_of(tm, tn, tk)
    launch = Launch(kernel, arrays((m, k), (n, k), (n,), (m, n)), (rows, columns))
    costs = block_costs(prepared(launch), HOPPER)
    fitting = [
        s
        for s, _ in costs.cycles[1:]
        if all(u <= g * d for g, (u, d) in zip((rows, columns), s, strict=True))
    ]
    assert fitting
    for scale in random.sample(fitting, min(2, len(fitting))):
        scaled, schedule = rewritten(launch, Choice(scale=scale))
        assert schedule.plan is not None and schedule.plan.scale == scale, schedule.reason
        assert_equal_results(interpreted(scaled, launch), results_without_roles(launch), launch.exact)
