"""Code that takes little of a kernel's time is short: a loop takes the place of copies for each row. Code that takes
most of the time is unrolled. Results are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tegula as tg

pytestmark = pytest.mark.machine_code

ROWS, BATCH = 8, 256


def kernel_with(iterations: int) -> Any:
    """A kernel that divides once before a loop, and multiplies in each of so many iterations."""

    @tg.kernel
    def scaled(x: tg.array2d[float], out: tg.array2d[float]):
        i = tg.tid()
        t = tg.tile_load(x[i], shape=ROWS)
        total = (t + 1.0) / (t * t + 3.0) + (t - 1.0) / (t * t + 5.0)
        for k in range(iterations):
            total = total * 0.5 + t * float(k)
        tg.tile_store(out[i], total)

    return scaled


def expected(x: np.ndarray, iterations: int) -> np.ndarray:
    total = (x + 1) / (x * x + 3) + (x - 1) / (x * x + 5)
    for k in range(iterations):
        total = total * np.float32(0.5) + x * np.float32(k)
    return total


@pytest.mark.parametrize("iterations, copies", [(1, ROWS), (400, 1)])
def test_divisions_are_unrolled_if_they_take_much_of_the_time(iterations: int, copies: int) -> None:
    x = np.random.default_rng(0).standard_normal((BATCH, ROWS)).astype(np.float32)
    out, kernel = tg.zeros((BATCH, ROWS)), kernel_with(iterations)
    tg.launch_tiled(kernel, dim=[BATCH], inputs=[tg.array(x), out], block_dim=1)
    np.testing.assert_allclose(out.numpy(), expected(x, iterations), rtol=1e-5, atol=1e-5)
    assert kernel.llvm().count("fdiv") == 2 * copies
