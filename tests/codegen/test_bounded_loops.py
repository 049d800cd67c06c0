"""Loops whose trip count has a small bound have no poll, and loops address tiles that stay in place without phis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tegula as tg

pytestmark = pytest.mark.machine_code


@tg.kernel
def triangular(x: tg.array2d[float], sums: tg.array1d[float]):
    total = 0.0
    for i in range(16):
        for j in range(15 - i, 16):
            total += x[i, j]
    sums[tg.tid()] = total


@tg.kernel
def down(x: tg.array2d[float], sums: tg.array1d[float], first: tg.uint8):
    total = 0.0
    for i in range(int(first), -1, -3):
        total += x[i % 16, 0]
    sums[tg.tid()] = total


@tg.kernel
def long(x: tg.array2d[float], sums: tg.array1d[float], first: tg.uint8):
    total = 0.0
    for i in range(int(first), x.shape[0]):
        total += x[i, 0]
    sums[tg.tid()] = total


@tg.kernel
def added_in_place(x: tg.array2d[float], out: tg.array2d[float]):
    total = tg.tile_zeros(shape=(1, 64), dtype=float)
    for k in range(x.shape[0]):
        total += tg.tile_load(x, shape=(1, 64), offset=(k, 0))
    tg.tile_store(out, total, offset=(0, 0))


def polls(kernel: Any) -> int:
    return kernel.llvm().count("load volatile i64")


def run(kernel: Any, *more: int) -> np.ndarray:
    x = np.arange(16 * 16, dtype=np.float32).reshape(16, 16)
    sums = tg.zeros(1)
    tg.launch(kernel, dim=1, inputs=[tg.array(x), sums, *more])
    return sums.numpy()[0]


def test_loops_with_small_bounds_do_not_poll() -> None:
    x = np.arange(16 * 16, dtype=np.float32).reshape(16, 16)
    assert run(triangular) == sum(x[i, 15 - i :].sum() for i in range(16))
    assert run(down, 200) == sum(x[i % 16, 0] for i in range(200, -1, -3))
    assert (polls(triangular), polls(down)) == (0, 0)


def test_loops_over_an_array_poll() -> None:
    assert run(long, 3) == sum(16.0 * i for i in range(3, 16))
    assert polls(long) == 1


def test_a_tile_that_stays_in_place_has_no_phi() -> None:
    x = np.random.default_rng(0).integers(-9, 9, (5, 64)).astype(np.float32)
    out = tg.zeros((1, 64))
    tg.launch_tiled(added_in_place, dim=[1], inputs=[tg.array(x), out], block_dim=32)
    assert np.array_equal(out.numpy(), x.sum(0, keepdims=True))
    assert "phi ptr" not in added_in_place.llvm()
