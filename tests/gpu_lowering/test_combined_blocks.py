"""Several short blocks that only add to arrays are run by one CTA, with the same sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from lowering import Launch, agrees, barriers, lowered, tiled

import tegula as tg
from tegula.ops.control import For
from tegula.ops.lane import LogicalBlocks
from tegula.ops.tile import TileAtomic


@tg.kernel
def squares(a: tg.array2d[tg.float64], result: tg.array1d[tg.float64]):
    i, j = tg.tid()
    v = a[i, j] * a[i, j]
    tg.tile_atomic_add(result, tg.tile_sum(tg.tile(v)))


@tg.kernel
def histogram_rows(a: tg.array2d[int], sums: tg.array1d[int], count: tg.array1d[int], position: int):
    i = tg.tid()
    t = tg.tile_load(a[i], 64)
    tg.tile_atomic_add(sums, t, offset=2)
    tg.tile_atomic_add(count, tg.tile_sum(t), offset=position)


@tg.kernel
def sum_of_sums(a: tg.array2d[float], result: tg.array1d[float]):
    i = tg.tid()
    s = tg.tile_sum(tg.tile_load(a[i], 64))
    tg.tile_atomic_add(result, s * s)


@tg.kernel
def atomic_at_other_offset(a: tg.array2d[float], result: tg.array1d[float]):
    i = tg.tid()
    tg.tile_atomic_add(result, tg.tile_sum(tg.tile_load(a[i], 64)), offset=i)


@tg.kernel
def atomic_with_used_result(a: tg.array2d[float], result: tg.array1d[float]):
    i = tg.tid()
    before = tg.tile_atomic_add(result, tg.tile_sum(tg.tile_load(a[i], 64)))
    tg.tile_store(a[i], before)


@tg.kernel
def largest(a: tg.array2d[float], result: tg.array1d[float]):
    i = tg.tid()
    tg.tile_atomic_max(result, tg.tile_max(tg.tile_load(a[i], 64)))


@tg.kernel
def reads_its_result(a: tg.array2d[float], result: tg.array1d[float]):
    i = tg.tid()
    t = tg.tile_load(a[i], 64) * tg.tile_load(result, 64)
    tg.tile_atomic_add(result, tg.tile_sum(t))


@tg.kernel
def sum_in_a_loop(a: tg.array2d[float], result: tg.array1d[float]):
    i = tg.tid()
    for k in range(3):
        tg.tile_atomic_add(result, tg.tile_sum(tg.tile_load(a[i], 64)))


@tg.kernel
def conditional_sum(a: tg.array2d[float], result: tg.array1d[float]):
    i = tg.tid()
    if i < 5:
        tg.tile_atomic_add(result, tg.tile_sum(tg.tile_load(a[i], 64)))


@tg.kernel
def long_rows(a: tg.array2d[float], result: tg.array1d[float]):
    i = tg.tid()
    tg.tile_atomic_add(result, tg.tile_sum(tg.tile_load(a[i], 1024)))


@tg.kernel
def narrow_sums(a: tg.array2d[tg.float16], result: tg.array1d[tg.float16]):
    i = tg.tid()
    tg.tile_atomic_add(result, tg.tile_sum(tg.tile_load(a[i], 64)))


def integers_in_float(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Numbers whose sums are exact in any order."""
    return (np.arange(np.prod(shape)).reshape(shape) % 5).astype(dtype)


def is_combined(launch: Launch) -> bool:
    kernel, _ = lowered(launch)
    return any(isinstance(op, LogicalBlocks) for op in kernel.walk())


@pytest.mark.parametrize("dims", [(8, 64), (1, 32), (7, 96), (64, 4)])
def test_combined_blocks_of_the_guide_have_no_atomics_in_the_loop(dims: tuple[int, ...]) -> None:
    kernel, _ = agrees(Launch(squares, [integers_in_float(*dims, dtype=np.float64), np.ones(1)], dims, 32))
    (loop,) = (op for op in kernel.walk() if isinstance(op, For))
    assert not any(isinstance(op, TileAtomic) for op in loop.walk())
    assert len(barriers(kernel)) == 0  # a single warp


def test_lanes_of_combined_blocks_synchronise_after_the_loop_only() -> None:
    kernel, _ = agrees(
        Launch(squares, [integers_in_float(16, 64, dtype=np.float64), np.ones(1)], (16, 64), 128)
    )
    (loop,) = (op for op in kernel.walk() if isinstance(op, For))
    (barrier,) = barriers(kernel)
    assert barrier not in list(loop.walk())


def test_combined_blocks_add_several_sums_at_fixed_indices() -> None:
    a = integers_in_float(11, 64, dtype=np.int32)
    launch = tiled(
        histogram_rows,
        [a, integers_in_float(70, dtype=np.int32), integers_in_float(9, dtype=np.int32), 7],
        (11,),
        32,
    )
    assert is_combined(launch)
    agrees(launch)
    agrees(
        tiled(
            histogram_rows,
            [a, integers_in_float(5, dtype=np.int32), integers_in_float(9, dtype=np.int32), -1],
            (2,),
            32,
        )
    )


def test_barriers_of_combined_blocks_order_their_iterations() -> None:
    launch = tiled(sum_of_sums, [integers_in_float(10, 64), np.zeros(1, np.float32)], (10,), 64)
    assert is_combined(launch)
    kernel, _ = agrees(launch)
    (loop,) = (op for op in kernel.walk() if isinstance(op, For))
    assert set(barriers(kernel)) <= set(loop.walk())


def test_sums_of_combined_blocks_keep_the_sign_of_zero() -> None:
    launch = tiled(sum_of_sums, [np.zeros((4, 64), np.float32), np.array([-0.0], np.float32)], (4,), 64)
    agrees(launch)
    negative_zeros = Launch(squares, [np.full((4, 32), -0.0), np.array([-0.0])], (4, 32), 32)
    agrees(negative_zeros)


REFUSED: list[Callable[[], Launch]] = [
    lambda: tiled(atomic_at_other_offset, [integers_in_float(8, 64), integers_in_float(8)], (8,), 64),
    lambda: tiled(atomic_with_used_result, [integers_in_float(8, 64), integers_in_float(8)], (8,), 64),
    lambda: tiled(largest, [integers_in_float(8, 64), integers_in_float(8)], (8,), 64),
    lambda: tiled(reads_its_result, [integers_in_float(8, 64), integers_in_float(64)], (8,), 64),
    lambda: tiled(sum_in_a_loop, [integers_in_float(8, 64), integers_in_float(8)], (8,), 64),
    lambda: tiled(conditional_sum, [integers_in_float(8, 64), integers_in_float(8)], (8,), 64),
    lambda: tiled(long_rows, [integers_in_float(8, 1024), integers_in_float(8)], (8,), 64),
    lambda: tiled(
        narrow_sums,
        [integers_in_float(8, 64, dtype=np.float16), integers_in_float(8, dtype=np.float16)],
        (8,),
        64,
    ),
    lambda: Launch(squares, [integers_in_float(3, 33, dtype=np.float64), np.ones(1)], (3, 33), 32),
]


@pytest.mark.parametrize("make", REFUSED, ids=lambda make: make().kernel.name)
def test_blocks_with_other_effects_are_not_combined(make: Callable[[], Launch]) -> None:
    assert not is_combined(make())


def test_blocks_whose_arrays_overlap_are_not_combined() -> None:
    total = tg.array(integers_in_float(9, 64, dtype=np.float64))
    assert is_combined(Launch(squares, [total[:8], total[8]], (8, 64), 32))
    assert not is_combined(Launch(squares, [total[:8], total[7]], (8, 64), 32))
