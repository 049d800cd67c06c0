"""Blocks that walk over several output tiles, in the same order in every role."""

from __future__ import annotations

import numpy as np
import pytest
from exact_data import agree, small_integers

import tegula as tg

pytestmark = pytest.mark.machine_code

M, N, K = 16, 16, 8


@tg.kernel
def matmul(a: tg.array2d[float], b: tg.array2d[float], c: tg.array2d[float], n: int):
    left = tg.tile_pipe(shape=(M, K), dtype=float, stages=4)
    right = tg.tile_pipe(shape=(K, N), dtype=float, stages=4)
    rows, columns = (c.shape[0] + M - 1) // M, (c.shape[1] + N - 1) // N
    with tg.role("fetch", warps=1):
        for i, j in tg.persistent_tiles((rows, columns), raster=3):
            for k in range(n):
                tg.tile_pipe_load(left, a, offset=(i * M, k * K))
                tg.tile_pipe_load(right, b, offset=(k * K, j * N))
    with tg.role("multiply", warp_groups=1):
        for i, j in tg.persistent_tiles((rows, columns), raster=3):
            total = tg.tile_zeros(shape=(M, N))
            for _k in range(n):
                tg.tile_matmul(tg.tile_pipe_pop(left), tg.tile_pipe_pop(right), total)
            tg.tile_store(c, total, offset=(i * M, j * N))


@pytest.mark.parametrize("blocks", [1, 2, 3, 7, 64])
def test_persistent_matmuls_with_any_number_of_blocks_match_numpy(blocks: int) -> None:
    a, b = small_integers(100, 40, seed=1), small_integers(40, 90, seed=2)
    *_, c = agree(matmul, [a, b, tg.zeros((100, 90)), 5], blocks)
    assert np.array_equal(c, a.numpy() @ b.numpy())


@tg.kernel
def order(visits: tg.array2d[int], rows: int, columns: int):
    with tg.ws(0):
        index = 0
        for i, j in tg.persistent_tiles((rows, columns), raster=2):
            visits[i, j] = index
            index += 1  # noqa: SIM113


def test_persistent_tiles_are_visited_by_groups_of_rows() -> None:
    (visits,) = agree(order, [tg.zeros((5, 3), dtype=int), 5, 3], 1)
    assert visits.tolist() == [[0, 2, 4], [1, 3, 5], [6, 8, 10], [7, 9, 11], [12, 13, 14]]


def test_each_persistent_tile_belongs_to_one_block() -> None:
    (visits,) = agree(order, [tg.full((5, 3), -1, dtype=int), 5, 3], 4)
    assert sorted(visits.reshape(-1).tolist()) == sorted(n // 4 for n in range(15))


@pytest.mark.parametrize(("rows", "columns"), [(0, 3), (-1, 3), (3, -1), (-2, -3)])
def test_persistent_loops_over_no_tiles_visit_none(rows: int, columns: int) -> None:
    (visits,) = agree(order, [tg.full((5, 3), -1, dtype=int), rows, columns], 2)
    assert (visits == -1).all()


@tg.kernel
def last_tile(results: tg.array1d[int], rows: int, columns: int):
    with tg.ws(0):
        for i, j in tg.persistent_tiles((rows, columns), raster=1024):
            if i < 2 and j < 2:
                results[i * 2 + j] = j + 1


def test_a_raster_group_larger_than_the_grid_has_the_tiles_of_the_grid() -> None:
    """Columns times raster is 2**32 here."""
    actual = tg.zeros(4, int)
    tg.launch_tiled(last_tile, dim=2**15, inputs=[actual, 1, 2**22])
    assert actual.numpy().tolist() == [1, 2, 0, 0]


@pytest.mark.parametrize(("rows", "columns"), [(2**16, 2**16), (2**31 - 1, 2**31 - 1)])
def test_more_tiles_than_int32_numbers_fail_the_launch(rows: int, columns: int) -> None:
    """The number of tiles wraps to 0 and to 1."""
    with pytest.raises(tg.KernelAssertion, match="at most 2147483647 tiles"):
        tg.launch_tiled(last_tile, dim=2**15, inputs=[tg.zeros(4, int), rows, columns])
        tg.synchronize()


def test_persistent_loops_take_more_blocks_than_tiles() -> None:
    (visits,) = agree(order, [tg.full((5, 3), -1, dtype=int), 2, 3], 20)
    assert (visits[:2] == 0).all() and (visits[2:] == -1).all()
