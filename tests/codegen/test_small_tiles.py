"""Small tiles are on the stack, where LLVM keeps them in registers; other tiles are in scratch memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tegula as tg

N = tg.constant(64)


@tg.kernel
def running_sum(x: tg.array2d[float], n: int, out: tg.array[float]):
    total = tg.tile_zeros(N, dtype=float)
    for i in range(n):
        total = total + tg.tile_load(x[i], shape=N)
    tg.tile_store(out, total)


@tg.kernel
def partly_written(x: tg.array2d[float], n: int, out: tg.array[float]):
    total = tg.tile_empty(N, dtype=float)
    for i in range(n):
        total[i] = x[i, 0]
    tg.tile_store(out, total)


def launch(kernel: Any) -> np.ndarray:
    x, out = np.arange(640, dtype=np.float32).reshape(10, 64), tg.zeros(64)
    tg.launch_tiled(kernel, dim=1, inputs=[tg.array(x), 10], outputs=[out], block_dim=1)
    return out.numpy()


@pytest.mark.machine_code
def test_a_carried_tile_of_256_bytes_is_on_the_stack() -> None:
    np.testing.assert_array_equal(launch(running_sum), np.arange(640).reshape(10, 64).sum(0))
    assert "alloca [256 x i8]" in running_sum.llvm()
    assert "thread: 0 bytes of" in running_sum.explain()


@pytest.mark.machine_code
def test_a_tile_that_may_be_read_before_it_is_written_is_in_scratch_memory() -> None:
    np.testing.assert_array_equal(launch(partly_written)[:10], np.arange(10) * 64)
    assert "256 bytes of" in partly_written.explain()
