"""The consumer role loads tiles from arrays that the kernel writes."""

from __future__ import annotations

from typing import Any

import pytest
from role_rewriting import assert_equal_results, interpreted, results_without_roles, rewritten
from scheduled_kernels import Launch, arrays, bf16

import tegula as tg
from tegula.ops.roles import Roles
from tegula.ops.tile import TileLoad


def read_and_clear(factor: float | None) -> Any:
    @tg.kernel
    def kernel(a: tg.array2d[bf16], g: tg.array2d[bf16], c: tg.array2d[float]):
        """c += a.T @ (factor * g), where g is 0 afterwards."""
        i, j = tg.tid()
        right = tg.tile_load(g, shape=(64, 64), offset=(i * 64, j * 64))
        if factor is not None:
            right = right * bf16(factor)
        tg.tile_store(g, tg.tile_zeros(shape=(64, 64), dtype=bf16), offset=(i * 64, j * 64))
        for k in range(a.shape[1] // 64):
            left = tg.tile_transpose(tg.tile_load(a, shape=(64, 64), offset=(i * 64, k * 64)))
            part = tg.tile_zeros(shape=(64, 64), dtype=float)
            tg.tile_matmul(left, right, part)
            tg.tile_atomic_add(c, part, offset=(k * 64, j * 64))

    return kernel


@tg.kernel
def change_in_loop(a: tg.array2d[bf16], g: tg.array2d[bf16], c: tg.array2d[bf16]):
    """Each iteration reads a tile of an array that it changes."""
    i, j = tg.tid()
    total = tg.tile_zeros(shape=(64, 64), dtype=float)
    for k in range(a.shape[1] // 64):
        right = tg.tile_load(g, shape=(64, 64), offset=(k * 64, j * 64))
        tg.tile_store(g, right * bf16(2.0), offset=(k * 64, j * 64))
        tg.tile_matmul(tg.tile_load(a, shape=(64, 64), offset=(i * 64, k * 64)), right, total)
    tg.tile_store(c, tg.tile_astype(total, bf16), offset=(i * 64, j * 64))


@pytest.mark.parametrize("factor", [None, 2.0])
def test_a_tile_of_a_changed_array_is_loaded_by_the_role_that_multiplies(factor: float | None) -> None:
    launch = Launch(read_and_clear(factor), arrays((192, 128), (192, 256), (128, 256), out=float), (3, 4))
    scheduled, schedule = rewritten(launch)
    assert schedule.plan is not None, schedule.reason
    (roles,) = (op for op in scheduled.walk() if isinstance(op, Roles))
    fetch, multiply = roles.regions
    loads = [[op.array.name for op in role.walk() if isinstance(op, TileLoad)] for role in (fetch, multiply)]
    assert loads == [[], ["g"]]
    assert_equal_results(interpreted(scheduled, launch), results_without_roles(launch), launch.exact)


def test_a_tile_that_an_iteration_changes_keeps_one_role() -> None:
    launch = Launch(change_in_loop, arrays((64, 128), (128, 64), (64, 64)), (1, 1))
    assert "may be written" in rewritten(launch)[1].reason
