"""`tile_arange`: each thread computes its numbers, in any shape."""

from __future__ import annotations

import numpy as np
from lowering import agrees, tiled

import tegula as tg
from tegula.ops.buffer import BufNew
from tegula.ops.control import For
from tegula.ops.tile import TileArange

ROWS, COLUMNS = 16, 64


@tg.kernel
def below_diagonal(a: tg.array2d[float], b: tg.array2d[float], limit: int):
    rows = tg.tile_reshape(tg.tile_arange(ROWS, dtype=int), shape=(ROWS, 1))
    columns = tg.tile_reshape(tg.tile_arange(1, 2 * COLUMNS, 2, dtype=int), shape=(1, COLUMNS))
    t = tg.tile_load(a, shape=(ROWS, COLUMNS))
    tg.tile_store(b, tg.where(columns <= rows + limit, t, -1.0))


@tg.kernel
def in_two_dimensions(b: tg.array2d[int]):
    tg.tile_store(b, tg.tile_reshape(tg.tile_arange(ROWS * COLUMNS, dtype=int), shape=(ROWS, COLUMNS)))


def test_aranges_compared_with_a_number_take_no_shared_memory() -> None:
    a = np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS)
    launch = tiled(below_diagonal, [a, np.zeros_like(a), 40], (1,), 64)
    kernel, _ = agrees(launch)
    assert not any(isinstance(op, BufNew) for op in kernel.walk())
    arange_types = [
        op.result.type for op in kernel.walk() if isinstance(op, TileArange) and "shape" in op.attrs
    ]
    assert {t.shape for t in arange_types} == {(ROWS, 1), (1, COLUMNS)}  # type: ignore[union-attr]


def test_aranges_of_whole_threads_take_no_shared_memory() -> None:
    kernel, _ = agrees(tiled(in_two_dimensions, [np.zeros((ROWS, COLUMNS), np.int32)], (1,), 64))
    assert not any(isinstance(op, BufNew) for op in kernel.walk())


@tg.kernel
def in_rows_of_seven(b: tg.array2d[int]):
    tg.tile_store(b, tg.tile_reshape(tg.tile_arange(140, dtype=int), shape=(20, 7)))


def test_other_aranges_are_exchanged_through_shared_memory() -> None:
    kernel, _ = agrees(tiled(in_rows_of_seven, [np.zeros((20, 7), np.int32)], (1,), 64))
    assert any(isinstance(op, BufNew) for op in kernel.walk())


@tg.kernel
def before_and_in_a_loop(b: tg.array2d[int], n: int):
    numbers = tg.tile_arange(COLUMNS, dtype=int) + tg.tile_arange(COLUMNS, dtype=int)
    tg.tile_store(b[0], numbers)
    for i in range(1, n):
        tg.tile_store(b[i], tg.tile_arange(COLUMNS, dtype=int) + i)


def test_loops_recompute_aranges() -> None:
    """The numbers are recomputed in the loop instead of occupying registers."""
    kernel, _ = agrees(tiled(before_and_in_a_loop, [np.zeros((3, COLUMNS), np.int32), 3], (1,), 64))
    loops = [op for op in kernel.walk() if isinstance(op, For)]
    assert loops and all(any(isinstance(op, TileArange) for op in loop.regions[0].ops) for loop in loops)
