"""Independent iterations over small tiles are jammed, and keep their results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lowering import agrees, barriers, lowered, tiled
from row_kernels import WIDTH, each_row, load_next_row, smooth_function

import tegula as tg
from support.campaigns import sampled
from tegula.ir import Kernel, Op
from tegula.ops.control import For
from tegula.ops.tile import TileLoad

ROWS = tg.constant(16)
ODD = tg.constant(17)
SHORT = tg.constant(3)


def rows(bound: Any, start: int = 0, step: int = 1) -> Any:
    first, stride = tg.constant(start), tg.constant(step)

    @tg.kernel
    def some_rows(a: tg.array2d[float], b: tg.array2d[float], n: int):
        for i in range(first, bound, stride):
            x = tg.tile_load(a, shape=(1, WIDTH), offset=(i, 0))
            tg.tile_store(b, tg.tile_map(smooth_function, x), offset=(i, 0))

    return some_rows


@tg.kernel
def load_late(a: tg.array2d[float], b: tg.array2d[float], n: int):
    x = tg.tile_load(a, shape=(1, WIDTH), offset=(0, 0))
    for i in range(1, n):
        tg.tile_store(b, tg.tile_map(smooth_function, x), offset=(i - 1, 0))
        x = tg.tile_load(a, shape=(1, WIDTH), offset=(i, 0))


@tg.kernel
def summed(a: tg.array2d[float], b: tg.array2d[float], n: int):
    total = tg.tile_zeros(shape=(1, WIDTH), dtype=float)
    last = tg.tile_zeros(shape=(1, WIDTH), dtype=float)
    previous = tg.tile_zeros(shape=(1, WIDTH), dtype=float)
    for i in range(n):
        previous = last
        last = tg.tile_load(a, shape=(1, WIDTH), offset=(i, 0))
        total = tg.abs(total) + last
        tg.tile_store(b, total + previous, offset=(i, 0))
    tg.tile_store(b, total - previous, offset=(n, 0))


@tg.kernel
def scale_matrices(a: tg.array2d[tg.mat33], b: tg.array2d[float], n: int):
    for i in range(n):
        x = tg.tile_load(a, shape=(1, WIDTH), offset=(i, 0))
        y = tg.tile_map(tg.transpose, x)
        tg.tile_store(b, tg.tile_map(tg.trace, x + y), offset=(i, 0))


@tg.kernel
def rows_beyond_bounds(a: tg.array2d[float], b: tg.array2d[float], n: int):
    for i in range(n):
        x = tg.tile_load(a, shape=(1, WIDTH), offset=(i * 3, 7), bounds_check=True)
        tg.tile_store(b, x + 1.0, offset=(i * 2, 5), bounds_check=True)


@tg.kernel
def update_in_place(a: tg.array2d[float], b: tg.array2d[float], n: int):
    for i in range(n):
        x = tg.tile_load(a, shape=(1, WIDTH), offset=(i, 0))
        tg.tile_store(a, x * 2.0, offset=(i + 1, 0))


@tg.kernel
def stores_to_one_row(a: tg.array2d[float], b: tg.array2d[float], n: int):
    for i in range(n):
        x = tg.tile_load(a, shape=(1, WIDTH), offset=(i, 0))
        tg.tile_store(b, x, offset=(i // 2, 0))


@tg.kernel
def two_stores(a: tg.array2d[float], b: tg.array2d[float], n: int):
    for i in range(n):
        x = tg.tile_load(a, shape=(1, WIDTH), offset=(i, 0))
        tg.tile_store(b, x, offset=(i, 0))
        tg.tile_store(b, x * 2.0, offset=(i + 1, 0))


@tg.kernel
def atomic_sums(a: tg.array2d[float], b: tg.array2d[float], n: int):
    for i in range(n):
        x = tg.tile_load(a, shape=(1, WIDTH), offset=(i, 0))
        tg.tile_store(b, x * tg.tile_sum(x), offset=(i, 0))


@tg.kernel
def descending(a: tg.array2d[float], b: tg.array2d[float], n: int):
    for i in range(15, -1, -1):
        x = tg.tile_load(a, shape=(1, WIDTH), offset=(i, 0))
        tg.tile_store(b, x * 2.0, offset=(i, 0))


def launch(kernel: Any, n: int = 16, block_dim: int = WIDTH) -> Any:
    a = np.random.default_rng(n).standard_normal((20, WIDTH)).astype(np.float32)
    return tiled(kernel, [tg.array(a), tg.zeros((20, WIDTH)), n], (1,), block_dim)


def loads(kernel: Kernel) -> list[int]:
    """The number of loads in an iteration of each loop."""
    return [_count(op) for op in kernel.walk() if isinstance(op, For)]


def _count(loop: Op) -> int:
    return sum(isinstance(op, TileLoad) for op in loop.regions[0].ops)


@pytest.mark.parametrize(
    ("kernel", "counts"),
    [
        (rows(ROWS), [8]),
        (rows(ODD), [8, 1]),
        (rows(ROWS, 1), [5]),
        (rows(ROWS, 3, 2), [7]),
        (rows(SHORT), [3]),
        (each_row, [8, 1]),
        (load_next_row, [8, 1]),
        (load_late, [8, 1]),
        (summed, [8, 1]),
        (rows_beyond_bounds, [8, 1]),
    ],
)
@sampled(4, "n", [0, 1, 2, 8, 9, 17])
def test_interleaved_iterations_have_the_same_results(kernel: Any, counts: list[int], n: int) -> None:
    lowered_kernel, _ = agrees(launch(kernel, n))
    assert loads(lowered_kernel) == counts


@pytest.mark.parametrize("kernel", [update_in_place, stores_to_one_row, two_stores, atomic_sums, descending])
def test_dependent_iterations_are_not_interleaved(kernel: Any) -> None:
    lowered_kernel, _ = agrees(launch(kernel))
    assert loads(lowered_kernel) == [1]


@pytest.mark.parametrize("block_dim", [64, 96])
def test_interleaved_tiles_smaller_than_a_block_are_correct(block_dim: int) -> None:
    result, _ = agrees(launch(each_row, 10, block_dim))
    assert loads(result) == [8, 1]


def test_iterations_are_interleaved_within_the_register_limit() -> None:
    a = np.random.default_rng(1).standard_normal((12, WIDTH, 3, 3)).astype(np.float32)
    array, _ = agrees(
        tiled(scale_matrices, [tg.array(a, dtype=tg.mat33), tg.zeros((12, WIDTH)), 11], (1,), WIDTH)
    )
    assert loads(array) == [2, 1]


def test_iterations_over_overlapping_arrays_are_not_interleaved() -> None:
    a = tg.array(np.random.default_rng(1).standard_normal((20, WIDTH)).astype(np.float32))
    kernel, _ = lowered(tiled(each_row, [a, a, 16], (1,), WIDTH))
    assert loads(kernel) == [1]


def test_interleaved_iterations_have_no_barrier_in_between() -> None:
    kernel, _ = lowered(launch(rows(ROWS)))
    assert not barriers(kernel)
