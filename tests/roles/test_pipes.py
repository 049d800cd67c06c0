"""Pipes of any number of stages, for any number of tiles, between any number of roles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from exact_data import agree, small_integers

import tegula as tg
from support.pipe_kernels import COLUMNS, N, four_roles, three_roles, two_producers, two_roles

pytestmark = pytest.mark.machine_code

CHAINS = [two_roles, three_roles, four_roles]


@pytest.mark.parametrize("chain", CHAINS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("stages", range(1, 9))
def test_pipes_of_any_trip_count_pass_every_tile(chain: Any, stages: int) -> None:
    kernel = chain(stages)
    for n in sorted({0, 1, stages - 1, stages, stages + 1}):
        x = small_integers(n + 1, N, seed=n)
        _, out = agree(kernel, [x, tg.zeros_like(x), n], 1)
        assert np.array_equal(out[:n], x.numpy()[:n] + 2) and not out[n:].any()


@pytest.mark.parametrize("chain", CHAINS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("stages", range(1, 9))
def test_pipes_pass_a_thousand_tiles(chain: Any, stages: int) -> None:
    kernel, x = chain(stages), small_integers(1000, N)
    out = tg.zeros_like(x)
    for _ in range(3):
        tg.launch_tiled(kernel, dim=2, inputs=[x], outputs=[out, 1000])
        assert np.array_equal(out.numpy(), x.numpy() + 2)


@pytest.mark.parametrize("chain", CHAINS, ids=lambda c: c.__name__)
def test_pipes_of_hundreds_of_tiles_agree_on_all_devices(chain: Any) -> None:
    x = small_integers(300, N)
    agree(chain(3), [x, tg.zeros_like(x), 300], 1)


# Several producers and consumers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("stages", range(2, 7))
def test_pipes_of_two_producers_match_numpy(stages: int) -> None:
    kernel = two_producers(stages)
    for rows in (1, 2, 3, 7, 128):
        x, y = small_integers(rows, COLUMNS, seed=rows), small_integers(rows, COLUMNS, seed=rows + 1)
        *_, out = agree(kernel, [x, y, tg.zeros_like(x), rows], 1)
        assert np.array_equal(out, x.numpy() * y.numpy())


@tg.kernel
def three_consumers(x: tg.array2d[float], out: tg.array2d[float], n: int):
    pipe = tg.tile_pipe(shape=(1, N), dtype=float, stages=2)
    with tg.ws(0):
        for k in range(n):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        total = tg.tile_zeros(shape=(1, N))
        for _k in range(n):
            total += tg.tile_pipe_pop(pipe)
        tg.tile_store(out, total, offset=(0, 0))
    with tg.ws(2):
        largest = tg.tile_full(shape=(1, N), value=-100.0)
        for _k in range(n):
            tile = tg.tile_pipe_pop(pipe)
            largest = tg.where(tile > largest, tile, largest)
        tg.tile_store(out, largest, offset=(1, 0))
    with tg.ws(3):
        for k in range(n):
            tile = tg.tile_pipe_pop(pipe)
            if k == n - 1:
                tg.tile_store(out, tile, offset=(2, 0))


@pytest.mark.parametrize("n", [1, 2, 3, 50])
def test_each_consumer_pops_every_tile(n: int) -> None:
    x = small_integers(n, N, seed=n)
    _, out = agree(three_consumers, [x, tg.zeros((3, N)), n], 1)
    data = x.numpy()
    assert np.array_equal(out, [data.sum(0), data.max(0), data[-1]])


# Popped tiles ---------------------------------------------------------------------------------------------------------


@tg.kernel
def elements_and_views(x: tg.array2d[float], out: tg.array1d[float], n: int):
    pipe = tg.tile_pipe(shape=(4, N), dtype=float, stages=2)
    with tg.ws(0):
        for k in range(n):
            tg.tile_pipe_load(pipe, x, offset=(4 * k, 0))
    with tg.ws(1):
        lane = tg.group_lane()
        total = 0.0
        for _k in range(n):
            tile = tg.tile_pipe_pop(pipe)
            row = tile[1]
            transposed = tg.tile_transpose(tile)
            if lane < N:
                total += row[lane] + 2.0 * transposed[lane, 3]
        if lane < N:
            out[lane] = total


def test_elements_and_views_of_popped_tiles() -> None:
    x = small_integers(40, N)
    _, out = agree(elements_and_views, [x, tg.zeros(N), 10], 1)
    parts = x.numpy().reshape(10, 4, N)
    assert np.array_equal(out, (parts[:, 1] + 2 * parts[:, 3]).sum(0))


@tg.kernel
def neighbours(x: tg.array2d[float], out: tg.array2d[float], n: int):
    pipe = tg.tile_pipe(shape=(1, N), dtype=float, stages=3)
    with tg.ws(0):
        tg.tile_pipe_load(pipe, x, offset=(0, 0))
        for k in range(1, n):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        previous = tg.tile_pipe_pop(pipe)
        for k in range(1, n):
            tile = tg.tile_pipe_pop(pipe)
            tg.tile_store(out, tile - previous, offset=(k, 0))
            previous = tile


def test_a_popped_tile_lives_into_the_next_iteration() -> None:
    x = small_integers(9, N)
    _, out = agree(neighbours, [x, tg.zeros((9, N)), 9], 1)
    assert np.array_equal(out[1:], np.diff(x.numpy(), axis=0))


@tg.kernel(check="bounded")
def pop_pairs(x: tg.array2d[float], out: tg.array2d[float], n: int):
    pipe = tg.tile_pipe(shape=(1, N), dtype=float, stages=2)
    with tg.ws(0):
        for k in range(2 * n):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for k in range(n):
            even, odd = tg.tile_pipe_pop(pipe), tg.tile_pipe_pop(pipe)
            twice = odd * 2.0
            tg.tile_store(out, twice - even, offset=(k, 0))


def test_tiles_popped_in_pairs_match_numpy() -> None:
    x = small_integers(10, N)
    _, out = agree(pop_pairs, [x, tg.zeros((5, N)), 5], 1)
    assert np.array_equal(out, 2 * x.numpy()[1::2] - x.numpy()[::2])


@tg.kernel
def released_early(x: tg.array2d[float], out: tg.array2d[float], n: int):
    pipe = tg.tile_pipe(shape=(1, N), dtype=float, stages=1)
    with tg.ws(0):
        for k in range(n):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        previous = tg.tile_zeros(shape=(1, N))
        for k in range(n):
            copied = tg.copy(tg.tile_pipe_pop(pipe))
            tg.tile_pipe_release(pipe)
            tg.tile_store(out, copied + previous, offset=(k, 0))
            previous = copied


def test_a_stage_released_by_hand_is_filled_again() -> None:
    x = small_integers(6, N)
    _, out = agree(released_early, [x, tg.zeros((6, N)), 6], 1)
    data = x.numpy()
    assert np.array_equal(out, data + np.concatenate([np.zeros((1, N)), data[:-1]]))


@tg.kernel
def one_role(x: tg.array2d[float], out: tg.array2d[float], n: int):
    pipe = tg.tile_pipe(shape=(1, N), dtype=float, stages=3)
    with tg.ws(0):
        for k in range(2):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
        for k in range(n):
            tg.tile_pipe_load(pipe, x, offset=(k + 2, 0))
            tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(k, 0))
        for k in range(2):
            tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(n + k, 0))


def test_a_pipe_inside_one_role_passes_every_tile() -> None:
    x = small_integers(9, N)
    _, out = agree(one_role, [x, tg.zeros_like(x), 7], 1)
    assert np.array_equal(out, x.numpy())


# Lanes of a role ------------------------------------------------------------------------------------------------------


@tg.kernel
def lanes(out: tg.array2d[int], tids: tg.array2d[int]):
    i, t = tg.tid()
    with tg.role("a", warps=3):
        tg.tile_store(out[3 * i], tg.tile(tg.group_lane() + tg.group_size()))
        tids[3 * i, tg.group_lane()] = t
    with tg.role("b", warp_groups=2):
        tg.tile_store(out[3 * i + 1], tg.tile(tg.group_lane() + tg.group_size()))
        tids[3 * i + 1, tg.group_lane()] = t
    with tg.role("c", warps=1):
        tg.tile_store(out[3 * i + 2], tg.tile(tg.group_lane() + tg.block_dim()))
        tids[3 * i + 2, tg.group_lane()] = t


def test_roles_have_their_own_lanes_and_thread_indices() -> None:
    out, tids = agree(lanes, [tg.zeros((6, 256), dtype=int), tg.full((6, 256), -1, dtype=int)], 2)
    for i in (0, 3):
        assert np.array_equal(out[i, :96], np.arange(96) + 96) and np.array_equal(tids[i, :96], np.arange(96))
        assert np.array_equal(out[i + 1], np.arange(256) + 256)
        assert np.array_equal(tids[i + 1], np.arange(256) + 128)
        assert np.array_equal(out[i + 2, :32], np.arange(32) + 384)
        assert np.array_equal(tids[i + 2, :32], np.arange(32) + 96)


@tg.kernel
def outer_values(x: tg.array2d[float], out: tg.array2d[float], scale: float):
    i, t = tg.tid()
    row = x[i]
    factor = scale * float(i)
    thread_value = float(t) * 0.5
    with tg.ws(0):
        tg.tile_store(out[i], tg.tile_load(row, shape=N) * factor)
    with tg.ws(1):
        if tg.group_lane() < N:
            out[i, N + tg.group_lane()] = thread_value
        tg.tile_store(out[i], tg.tile(thread_value), offset=2 * N)


def test_roles_use_values_computed_before_them() -> None:
    x = small_integers(3, N)
    _, out = agree(outer_values, [x, tg.zeros((3, 2 * N + 128)), 3.0], 3)
    thread_values = np.arange(128, 256) * 0.5
    for i in range(3):
        assert np.array_equal(out[i, :N], x.numpy()[i] * (3 * i))
        assert np.array_equal(out[i, N : 2 * N], thread_values[:N]) and np.array_equal(
            out[i, 2 * N :], thread_values
        )
