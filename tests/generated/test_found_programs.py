"""Reduced programs that once differed, kept."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import agree

import tegula as tg


@tg.kernel
def wrapping_index(x: tg.array2d[tg.float16], o: tg.array[tg.float16], n: int):
    g = tg.tid()
    i = tg.uniform(g) // 16
    j = g - i * 16
    t = tg.tile_load(x, shape=(2, 3), offset=(0, n)) @ tg.tile_load(x, shape=(3, 8), offset=(i, n))
    c = tg.tile_ones(1, dtype=tg.int32)
    e = t[n % 2, (j + 1) % 8]
    c[j % 1] += j + 1
    o[i * 1024 + j] = e


@pytest.mark.parametrize("lanes", [7, 16, 27, 32])
def test_an_index_that_wraps_within_a_vector(lanes: int) -> None:
    x = np.random.default_rng(0).integers(-8, 9, (12, 12)).astype(np.float16)
    agree(wrapping_index, [tg.array(x), tg.zeros(2048, dtype=tg.float16), 3], lanes, 16)


@tg.kernel
def absent_element(x: tg.array[float], o: tg.array[float]):
    g = tg.tid()
    i = tg.uniform(g) // 4
    j = g - i * 4
    t = tg.tile(x[j])
    o[g] = t[i]


def test_the_element_of_an_absent_lane() -> None:
    x = np.arange(1, 13, dtype=np.float32)
    _, o = agree(absent_element, [tg.array(x), tg.zeros(16)], 9, 4)
    assert o[:9].tolist() == [1, 1, 1, 1, 2, 2, 2, 2, 0]


@tg.kernel
def reshaped_transpose(o: tg.array[int], n: int):
    t = tg.tile_zeros((5, 3), dtype=int, storage="shared")
    t[1, 2] = n
    tg.tile_store(o, tg.tile_reshape(tg.copy(tg.tile_transpose(t)), 15))


@tg.kernel
def reshaped_view(o: tg.array[int]):
    t = tg.tile_zeros((5, 3), dtype=int, storage="shared")
    tg.tile_store(o, tg.tile_reshape(tg.tile_transpose(t), 15))


def test_the_reshape_of_a_transposed_tile() -> None:
    agree(reshaped_view, [tg.zeros(15, dtype=int)], 1, 4, tiled=True)
    (o,) = agree(reshaped_transpose, [tg.zeros(15, dtype=int), 4], 1, 4, tiled=True)
    assert o.nonzero()[0].tolist() == [11]


@tg.kernel
def own_name_in_a_loop(x: tg.array2d[int], o: tg.array2d[int]):
    t = tg.tile_zeros((8, 4), dtype=int, storage="shared")
    for k in range(0, 20, 7):
        t = t
    tg.tile_store(o, t @ tg.tile_load(x, shape=(4, 8)) + 1)


def test_a_tile_assigned_to_its_own_name_in_a_loop() -> None:
    _, o = agree(
        own_name_in_a_loop, [tg.ones((4, 8), dtype=int), tg.zeros((8, 8), dtype=int)], 1, 4, tiled=True
    )
    assert (o == 1).all()
