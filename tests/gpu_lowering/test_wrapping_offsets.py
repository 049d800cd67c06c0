"""Offsets are int32 and wrap: a store after 2**32 elements may hit the elements of the first store, so threads must
wait."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lowering import agrees, barriers, lowered, tiled

import tegula as tg
from tegula.interp.machine import HANDLERS
from tegula.ops.group import AsyncCopy

TYPED = {tg.int32: np.int32, tg.uint32: np.uint32}
WIDE, BLOCK = tg.constant(48), tg.constant(64)


def stepping(bound: Any, factor: int) -> Any:
    """A kernel that loads, changes and stores a tile in each iteration, at offsets that grow by `factor`."""
    stride = tg.constant(factor)

    @tg.kernel
    def steps(a: tg.array1d[float], n: int):
        for i in range(bound(a, n)):
            t = tg.tile_load(a, shape=WIDE, offset=i * stride)
            tg.tile_store(a, t[::-1] + 1.0, offset=i * stride)

    return steps


@tg.func
def offset_by_argument(a: tg.array1d[float], n: int):
    return n


@tg.func
def offset_by_length(a: tg.array1d[float], n: int):
    return a.shape[0] // 48


@tg.func
def offset_by_tiles(a: tg.array1d[float], n: int):
    return (n + 47) // 48


def crossing(kernel: Any) -> int:
    """Barriers between a store and the load of a later iteration; within an iteration elements change threads."""
    lowered_kernel, _ = lowered(tiled(kernel, [tg.zeros(480), 10], (1,), BLOCK))
    return sum("tile.load reads what tile.store" in b.attrs["reason"] for b in barriers(lowered_kernel))


@pytest.mark.parametrize(
    ("bound", "factor", "waits"),
    [
        (offset_by_length, 48, 0),
        (offset_by_tiles, 48, 0),
        (offset_by_argument, 48, 1),
        (offset_by_argument, 1 << 16, 0),
        (offset_by_tiles, 3 * 48, 1),
        (offset_by_tiles, 48 << 16, 0),
        (offset_by_length, 47, 1),
    ],
)
def test_iterations_wait_where_offsets_may_repeat(bound: Any, factor: int, waits: int) -> None:
    assert crossing(stepping(bound, factor)) == waits


@tg.kernel
def writes(a: tg.array2d[float], n: int):
    for i in range(n):
        x = tg.tile_load(a, shape=(1, 64), offset=(i, 0))
        tg.tile_store(a, x + float(i), offset=(0, 64 + i * 64))


def test_offsets_wrap_at_a_power_of_two() -> None:
    """Each thread then accesses its own elements in order."""
    kernel, _ = agrees(tiled(writes, [tg.zeros((4, 512)), 4], (1,), 64))
    reasons = [b.attrs["reason"] for b in barriers(kernel)]
    assert not any(r == "tile.store writes what tile.store writes" for r in reasons)


@pytest.mark.parametrize("step", [1, 2**28, 2**29, 2**30])
def test_interleaved_iterations_stay_within_int32(step: int) -> None:
    @tg.kernel
    def rows(a: tg.array2d[float], b: tg.array2d[float], n: int):
        for i in range(0, n, step):
            x = tg.tile_load(a, shape=(1, BLOCK), offset=(i, 0))
            tg.tile_store(b, x + 1.0, offset=(i, 0))

    a = tg.array(np.arange(4 * BLOCK, dtype=np.float32).reshape(4, BLOCK))
    agrees(tiled(rows, [a, tg.zeros((4, BLOCK)), 4], (1,), BLOCK))


@tg.kernel
def matmul(a: tg.array2d[float], out: tg.array2d[float], n: Any):
    total = tg.tile_zeros(shape=(16, 16))
    for k in tg.pipelined(n, stages=4):
        x = tg.tile_load(a, shape=(16, 16), offset=(0, k * 16))
        y = tg.tile_load(a, shape=(16, 16), offset=(k * 16, 0))
        tg.tile_matmul(x, y, total)
    tg.tile_store(out, total)


@pytest.mark.parametrize("dtype", [tg.int32, tg.uint32], ids=str)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 5])
def test_no_iteration_beyond_the_last_is_fetched(dtype: Any, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[Any] = []

    def counted(m: Any, op: Any, mask: Any) -> None:
        fetched.append(op)
        original_handler(m, op, mask)

    original_handler = HANDLERS[AsyncCopy]
    monkeypatch.setitem(HANDLERS, AsyncCopy, counted)
    a = tg.array(np.random.default_rng(n).integers(-3, 4, (96, 96)).astype(np.float32))
    agrees(tiled(matmul, [a, tg.zeros((16, 16)), TYPED[dtype](n)], (1,), 64))
    assert len(fetched) == 2 * n
