"""Pipes of tiles with one to four dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from exact import agree, small_integers

import tegula as tg

SHAPES = [(16,), (1,), (6, 8), (3, 4, 8), (2, 3, 5), (2, 3, 4, 8), (2, 2, 3, 3)]


@tg.func
def first(k: int):
    return k


@tg.func
def first_of_two(k: int):
    return k, 0


@tg.func
def first_of_three(k: int):
    return k, 0, 0


@tg.func
def first_of_four(k: int):
    return k, 0, 0, 0


AT = (first, first_of_two, first_of_three, first_of_four)


def copying(shape: tuple[int, ...]) -> Any:
    """Tiles side by side along the first dimension: fetched, pushed on, and stored."""
    at, rows = AT[len(shape) - 1], shape[0]

    @tg.kernel
    def copies(x, y, n: int):
        raw = tg.tile_pipe(shape=shape, dtype=tg.float32, stages=3)
        twice = tg.tile_pipe(shape=shape, dtype=tg.float32, stages=2)
        with tg.role("fetch", warps=1):
            for k in range(n):
                tg.tile_pipe_load(raw, x, offset=at(k * rows))
        with tg.role("double", warps=2):
            for _k in range(n):
                tg.tile_pipe_push(twice, tg.tile_pipe_pop(raw) * 2.0)
        with tg.role("store", warp_groups=1):
            for k in range(n):
                tg.tile_store(y, tg.tile_pipe_pop(twice), offset=at(k * rows))

    return copies


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_all_elements_come_through(shape: tuple[int, ...]) -> None:
    whole = (5 * shape[0] - 1, *shape[1:]) if shape[0] > 1 else (5, *shape[1:])
    x = small_integers(*whole)
    _, y = agree(copying(shape), [x, tg.zeros(whole), 5], 1)
    assert np.array_equal(y, 2 * x.numpy())


@tg.kernel
def shifted(x: tg.array2d[tg.float16], y: tg.array2d[tg.float16], column: int):
    pipe = tg.tile_pipe(shape=(2, 16), dtype=tg.float16, stages=2)
    with tg.ws(0):
        for k in range(4):
            tg.tile_pipe_load(pipe, x, offset=(2 * k, column))
    with tg.ws(1):
        for k in range(4):
            tg.tile_store(y, tg.tile_pipe_pop(pipe), offset=(2 * k, column))


@pytest.mark.parametrize("column", [0, 1, 2, 4, 7, 8, 30])
def test_tiles_start_anywhere_in_rows(column: int) -> None:
    """Bulk copies cannot."""
    x = tg.array(np.arange(8 * 64).reshape(8, 64) % 97, dtype=tg.float16)
    y = tg.full((8, 64), -1.0, dtype=tg.float16)
    tg.launch_tiled(shifted, dim=1, inputs=[x, y, column])
    wanted = np.full((8, 64), -1.0, np.float16)
    wanted[:, column : column + 16] = x.numpy()[:, column : column + 16]
    assert np.array_equal(y.numpy(), wanted)
