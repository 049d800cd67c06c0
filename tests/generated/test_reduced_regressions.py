"""Reduced generated programs whose results once differed between the CPU and the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import agree

import tegula as tg

pytestmark = pytest.mark.machine_code


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
def test_an_index_that_wraps_within_a_vector_is_correct(lanes: int) -> None:
    x = np.random.default_rng(0).integers(-8, 9, (12, 12)).astype(np.float16)
    agree(wrapping_index, [tg.array(x), tg.zeros(2048, dtype=tg.float16), 3], lanes, 16)


@tg.kernel
def absent_element(x: tg.array[float], o: tg.array[float]):
    g = tg.tid()
    i = tg.uniform(g) // 4
    j = g - i * 4
    t = tg.tile(x[j])
    o[g] = t[i]


def test_the_element_of_an_absent_lane_is_zero() -> None:
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


def test_the_reshape_of_a_transposed_tile_is_correct() -> None:
    agree(reshaped_view, [tg.zeros(15, dtype=int)], 1, 4, tiled=True)
    (o,) = agree(reshaped_transpose, [tg.zeros(15, dtype=int), 4], 1, 4, tiled=True)
    assert o.nonzero()[0].tolist() == [11]


@tg.kernel
def self_assignment_in_loop(x: tg.array2d[int], o: tg.array2d[int]):
    t = tg.tile_zeros((8, 4), dtype=int, storage="shared")
    for k in range(0, 20, 7):
        t = t
    tg.tile_store(o, t @ tg.tile_load(x, shape=(4, 8)) + 1)


def test_a_tile_assigned_to_its_own_name_in_a_loop_is_correct() -> None:
    _, o = agree(
        self_assignment_in_loop, [tg.ones((4, 8), dtype=int), tg.zeros((8, 8), dtype=int)], 1, 4, tiled=True
    )
    assert (o == 1).all()


@tg.kernel
def one_element_for_all_lanes(o: tg.array[int], n: int):
    i, j = tg.tid()
    t = tg.tile_arange(0, 16, dtype=tg.int32, storage="register")
    s = 0
    for _ in range(n):
        if i:
            t[15] = s
        else:
            for _ in range(j):
                s = s + 1
    o[i * 16 + j] = t[j] + s


def test_the_last_lane_that_writes_an_element_wins() -> None:
    agree(one_element_for_all_lanes, [tg.zeros(32, dtype=int), 3], (2, 16), 16)


@tg.kernel
def views_of_partial_tile(x: tg.array[float], o: tg.array[float], n: int):
    i = tg.tid()
    t = tg.tile(x[i])
    u = tg.tile_transpose(tg.tile_reshape(t, (11, 3)))
    e = t[6:8]
    o[i] = u[1, 1] + e[1] + u[2, 7]


@tg.kernel
def slice_of_partial_tile(x: tg.array[float], n: int):
    t = tg.tile(x[tg.tid()])
    if n:
        t = t[32:]


def test_views_of_a_tile_that_lacks_elements_are_correct() -> None:
    x = tg.array(np.arange(75, dtype=np.float32))
    _, o = agree(views_of_partial_tile, [x, tg.zeros(75), 3], 75, 33)
    assert o[70] == 70 + 73 + 0
    agree(slice_of_partial_tile, [x, 0], 75, 33)


@tg.kernel
def column_minimum(x: tg.array2d[tg.uint16], o: tg.array[tg.float64]):
    rows = tg.tile_astype(tg.tile_load(x, shape=(3, 5)), tg.float64)
    tg.tile_store(o, tg.tile_min(rows, axis=0))


@tg.kernel
def column_maximum(x: tg.array2d[float], o: tg.array[float]):
    rows = tg.clamp(tg.tile_load(x, shape=(3, 5)), 7.0, 8.0)
    tg.tile_store(o, tg.tile_max(rows, axis=0))


@tg.kernel
def extremes_of_scalars(x: tg.array[float], k: tg.array[tg.uint16], o: tg.array[float]):
    number, count = x[0], tg.float32(k[0])
    o[0] = tg.min(number, count)
    o[1] = tg.max(count, number)
    o[2] = tg.max(tg.clamp(number, 7.0, 8.0), number * number)


@tg.kernel
def extreme_of_the_last_lane(x: tg.array[tg.bfloat16], o: tg.array[tg.bfloat16]):
    block, lane = tg.tid()
    number = tg.where(lane < 4, x[block], tg.bfloat16(1.0))
    if lane >= 3:
        number = tg.max(number, tg.bfloat16(0.0))
    o[4 * block + lane] = number


def test_an_extreme_of_a_widened_number_and_zero_is_correct() -> None:
    values = [tg.array(np.array([-1.5], np.float32), dtype=tg.bfloat16), tg.zeros(4, dtype=tg.bfloat16)]
    assert agree(extreme_of_the_last_lane, values, 1, 4, tiled=True)[1].tolist() == [-1.5, -1.5, -1.5, 0.0]


def test_comparisons_with_nan_in_single_steps_are_correct() -> None:
    columns = [tg.ones((3, 5), dtype=tg.uint16), tg.zeros(5, dtype=tg.float64)]
    assert agree(column_minimum, columns, 1, 4, tiled=True)[1].tolist() == [1] * 5
    assert agree(column_maximum, [tg.ones((3, 5)), tg.zeros(5)], 1, 4, tiled=True)[1].tolist() == [7] * 5
    for x in (np.nan, -0.0, 0.0, 9.0):
        values = [tg.array(np.array([x], np.float32)), tg.zeros(1, dtype=tg.uint16), tg.zeros(3)]
        agree(extremes_of_scalars, values, 1, 1)
