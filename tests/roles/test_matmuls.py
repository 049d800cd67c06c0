"""Matmuls by roles: one role that fetches, and one or more that multiply."""

from __future__ import annotations

import numpy as np
import pytest
from exact_data import agree, small_integers

import tegula as tg
from support.small_matmuls import KERNELS, K, M, N

pytestmark = pytest.mark.machine_code


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
@pytest.mark.parametrize("shape", [(64, 32, 48), (33, 17, 9), (1, 1, 1), (70, 50, 100)], ids=str)
def test_matmuls_by_roles_match_numpy(kernel: tg.Kernel, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b = small_integers(m, k, seed=1), small_integers(k, n, seed=2)
    *_, c = agree(kernel, [a, b, tg.zeros((m, n)), -(-k // K)], (-(-m // M), -(-n // N)))
    assert np.array_equal(c, a.numpy() @ b.numpy())


@tg.kernel
def summed(a: tg.array2d[tg.bfloat16], b: tg.array2d[tg.bfloat16], c: tg.array2d[float], steps: int):
    """Each block multiplies its chunk of K."""
    block = tg.tid()
    left = tg.tile_pipe(shape=(128, 64), dtype=tg.bfloat16, stages=2)
    right = tg.tile_pipe(shape=(64, 64), dtype=tg.bfloat16, stages=2)
    with tg.ws(0):
        for k in range(steps):
            tg.tile_pipe_load(left, a, offset=(0, (block * steps + k) * 64))
            tg.tile_pipe_load(right, b, offset=((block * steps + k) * 64, 0))
    with tg.ws(1, 2):
        total = tg.tile_zeros(shape=(128, 64))
        for _k in range(steps):
            tg.tile_matmul(tg.tile_pipe_pop(left), tg.tile_pipe_pop(right), total)
        tg.tile_atomic_add(c, total)


@pytest.mark.parametrize("blocks", [1, 5])
@pytest.mark.parametrize(("m", "n"), [(128, 64), (100, 60)])
def test_matmuls_by_roles_add_sums_of_several_blocks(blocks: int, m: int, n: int) -> None:
    """GPUs with bulk reductions add the sums by bulk reductions."""
    k = 128 * blocks
    a, b = (
        tg.array(small_integers(*shape, seed=s).numpy(), dtype=tg.bfloat16)
        for s, shape in enumerate(((m, k), (k, n)))
    )
    *_, c = agree(summed, [a, b, tg.ones((m, n)), 2], blocks)
    assert np.array_equal(c, 1 + a.numpy().astype(np.float32) @ b.numpy().astype(np.float32))
