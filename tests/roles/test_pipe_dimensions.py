"""Pipes of tiles with one to four dimensions."""

from __future__ import annotations

import numpy as np
import pytest
from exact_data import agree, small_integers

import tegula as tg
from support.pipe_shapes import SHAPES, copy_through_pipes

pytestmark = pytest.mark.machine_code


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_pipes_of_any_rank_copy_all_elements(shape: tuple[int, ...]) -> None:
    array_shape = (5 * shape[0] - 1, *shape[1:]) if shape[0] > 1 else (5, *shape[1:])
    x = small_integers(*array_shape)
    _, y = agree(copy_through_pipes(shape), [x, tg.zeros(array_shape), 5], 1)
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
def test_pipe_loads_start_anywhere_in_rows(column: int) -> None:
    """Tiles at unaligned offsets in a row are copied by threads, since bulk copies need alignment."""
    x = tg.array(np.arange(8 * 64).reshape(8, 64) % 97, dtype=tg.float16)
    y = tg.full((8, 64), -1.0, dtype=tg.float16)
    tg.launch_tiled(shifted, dim=1, inputs=[x, y, column])
    expected = np.full((8, 64), -1.0, np.float16)
    expected[:, column : column + 16] = x.numpy()[:, column : column + 16]
    assert np.array_equal(y.numpy(), expected)
