"""Independent reductions are combined, so that the threads of a block synchronise once for all of them."""

from __future__ import annotations

import numpy as np
import pytest
from lowering import agrees, lowered, tiled

import tegula as tg
from tegula.ir import Kernel
from tegula.ops.group import Barrier, PartialReduce

WIDTH = 256


@tg.kernel
def two_reductions(a: tg.array2d[float], b: tg.array2d[float], c: tg.array2d[float]):
    i = tg.tid()
    x = tg.tile_load(a[i], WIDTH)
    s = tg.tile_sum(x * x)
    tg.tile_store(c[i], x * s)
    y = tg.tile_load(b[i], WIDTH)
    tg.tile_store(b[i], y + tg.tile_max(x - y))


@tg.kernel
def dependent_reductions(a: tg.array2d[float], b: tg.array2d[float], c: tg.array2d[float]):
    i = tg.tid()
    x = tg.tile_load(a[i], WIDTH)
    y = x - tg.tile_max(x)
    tg.tile_store(c[i], y / tg.tile_sum(y * y))


@tg.kernel
def sum_after_a_store(a: tg.array2d[float], b: tg.array2d[float], c: tg.array2d[float]):
    i = tg.tid()
    x = tg.tile_load(a[i], WIDTH)
    tg.tile_store(c[i], x * tg.tile_sum(x))
    tg.tile_store(b[i], x * tg.tile_max(tg.tile_load(c[i], WIDTH)))


@tg.kernel
def along_rows_and_whole(a: tg.array2d[float], b: tg.array2d[float], c: tg.array2d[float]):
    x = tg.tile_load(a, shape=(32, 32))
    columns = tg.tile_sum(x, axis=0)
    tg.tile_store(b[0], columns)
    tg.tile_store(c[0], columns * tg.tile_max(x))


@tg.kernel
def long_rows(a: tg.array2d[float], b: tg.array2d[float], c: tg.array2d[float]):
    i = tg.tid()
    x = tg.tile_load(a[i], 8192)
    tg.tile_store(c[i], x * tg.tile_sum(x))
    y = tg.tile_load(b[i], 8192) * 2.0
    tg.tile_store(b[i], y * tg.tile_max(y))


@tg.kernel
def reductions_with_map_operands(a: tg.array2d[float], b: tg.array2d[float], c: tg.array2d[float]):
    i, j = tg.tid()
    x = tg.tile_load(a[i], WIDTH)
    tg.tile_store(c[i], x * tg.tile_sum(x))
    odd = j % 2 == 1
    lane = tg.tile(tg.where(odd, 2.0, 3.0))
    tg.tile_store(b[i], tg.tile_broadcast(tg.tile_max(lane), shape=WIDTH))


def rows(width: int = WIDTH) -> list[tg.array]:
    seeds = map(np.random.default_rng, range(3))
    return [tg.array(rng.integers(-4, 5, (2, width)).astype(np.float32)) for rng in seeds]


def barriers_of(kernel: Kernel) -> tuple[list[int], int]:
    """The number of tiles of each partial reduction, and the number of barriers."""
    reductions = [len(op.operands) for op in kernel.walk() if isinstance(op, PartialReduce)]
    return reductions, sum(isinstance(op, Barrier) for op in kernel.walk())


@pytest.mark.parametrize(
    ("kernel", "reductions", "barriers"),
    [
        (two_reductions, [2], 1),
        (dependent_reductions, [1, 1], 2),
        (sum_after_a_store, [1, 1], 2),
        (along_rows_and_whole, [2], 1),
        (reductions_with_map_operands, [2], 1),
    ],
)
def test_independent_reductions_synchronise_once(
    kernel: tg.Kernel, reductions: list[int], barriers: int
) -> None:
    args = [tg.array(np.arange(1024.0, dtype=np.float32).reshape(32, 32)), *(tg.zeros((1, 32)) for _ in "bc")]
    is_whole_block = kernel is along_rows_and_whole
    lowered_kernel, _ = agrees(
        tiled(kernel, args if is_whole_block else rows(), (1,) if is_whole_block else (2,), 128)
    )
    assert barriers_of(lowered_kernel) == (reductions, barriers)


def test_reductions_are_not_grouped_where_registers_are_scarce() -> None:
    kernel, _ = lowered(tiled(long_rows, rows(8192), (2,), 64))
    assert barriers_of(kernel)[0] == [1, 1]
