"""Matmuls in flight: waited for immediately, in the next iteration, or with others still pending."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from exact_data import agree, small_integers

import tegula as tg

pytestmark = pytest.mark.machine_code

M = N = 16
K = 8


@tg.kernel
def awaited_at_once(a: tg.array2d[float], b: tg.array2d[float], c: tg.array2d[float], n: int):
    left = tg.tile_pipe(shape=(M, K), dtype=float, stages=2)
    right = tg.tile_pipe(shape=(K, N), dtype=float, stages=2)
    with tg.ws(0):
        for k in range(n):
            tg.tile_pipe_load(left, a, offset=(0, k * K))
            tg.tile_pipe_load(right, b, offset=(k * K, 0))
    with tg.ws(1):
        total = tg.tile_zeros(shape=(M, N))
        for _k in range(n):
            tg.tile_matmul(tg.tile_pipe_pop(left), tg.tile_pipe_pop(right), total, wait=False)
            tg.tile_matmul_wait()
        tg.tile_store(c, total)


@tg.kernel
def awaited_in_the_next_iteration(a: tg.array2d[float], b: tg.array2d[float], c: tg.array2d[float], n: int):
    left = tg.tile_pipe(shape=(M, K), dtype=float, stages=2)
    right = tg.tile_pipe(shape=(K, N), dtype=float, stages=2)
    with tg.ws(0):
        for k in range(n):
            tg.tile_pipe_load(left, a, offset=(0, k * K))
            tg.tile_pipe_load(right, b, offset=(k * K, 0))
    with tg.ws(1):
        total = tg.tile_zeros(shape=(M, N))
        for _k in range(n):
            x, y = tg.tile_pipe_pop(left), tg.tile_pipe_pop(right)
            tg.tile_matmul(x, y, total, wait=False)
            tg.tile_matmul_wait(pending=1)
        tg.tile_matmul_wait()
        tg.tile_store(c, total)


@tg.kernel
def downwards(a: tg.array2d[float], b: tg.array2d[float], c: tg.array2d[float], n: int):
    left = tg.tile_pipe(shape=(M, K), dtype=float, stages=3)
    right = tg.tile_pipe(shape=(K, N), dtype=float, stages=2)
    with tg.ws(0):
        for k in range(n - 1, -1, -1):
            tg.tile_pipe_load(left, a, offset=(0, k * K))
            tg.tile_pipe_load(right, b, offset=(k * K, 0))
    with tg.ws(1):
        total = tg.tile_zeros(shape=(M, N))
        for _k in range(n - 1, -1, -1):
            tg.tile_matmul(tg.tile_pipe_pop(left), tg.tile_pipe_pop(right), total, wait=False)
            tg.tile_matmul_wait(pending=1)
        tg.tile_matmul_wait()
        tg.tile_store(c, total)


@pytest.mark.parametrize(
    "kernel", [awaited_at_once, awaited_in_the_next_iteration, downwards], ids=lambda k: k.name
)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 9])
def test_matmuls_in_flight_match_numpy(kernel: Any, n: int) -> None:
    a, b = small_integers(M, max(n, 1) * K), small_integers(max(n, 1) * K, N, seed=1)
    *_, c = agree(kernel, [a, b, tg.zeros((M, N)), n], 1)
    assert np.array_equal(c, (a.numpy() @ b.numpy()) * (n > 0))


@tg.kernel
def overlapped(
    q: tg.array2d[float], k: tg.array2d[float], v: tg.array2d[float], o: tg.array2d[float], n: int
):
    """The scores of one iteration are overlapped with the output of the previous iteration."""
    keys = tg.tile_pipe(shape=(K, M), dtype=float, stages=2)
    values = tg.tile_pipe(shape=(K, M), dtype=float, stages=2)
    with tg.ws(0, registers=24):
        tg.tile_pipe_load(keys, k, offset=(0, 0))
        for j in range(1, n):
            tg.tile_pipe_load(keys, k, offset=(j * K, 0))
            tg.tile_pipe_load(values, v, offset=((j - 1) * K, 0))
        tg.tile_pipe_load(values, v, offset=((n - 1) * K, 0))
    with tg.ws(1, registers=240):
        rows = tg.tile_load(q, shape=(M, M))
        total = tg.tile_zeros(shape=(M, M))
        scores = tg.tile_zeros(shape=(M, K))
        tg.tile_matmul(rows, tg.tile_transpose(tg.tile_pipe_pop(keys)), scores, wait=False)
        tg.tile_matmul_wait()
        weights = tg.where(scores > 0.0, 1.0, 0.0)
        for _j in range(1, n):
            scores = tg.tile_zeros(shape=(M, K))
            tg.tile_matmul(rows, tg.tile_transpose(tg.tile_pipe_pop(keys)), scores, wait=False)
            tg.tile_matmul(weights, tg.tile_pipe_pop(values), total, wait=False)
            tg.tile_matmul_wait(pending=1)
            fresh = tg.where(scores > 0.0, 1.0, 0.0)
            tg.tile_matmul_wait()
            weights = fresh
        tg.tile_matmul(weights, tg.tile_pipe_pop(values), total)
        tg.tile_store(o, total)


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_matmuls_overlapped_with_the_previous_iteration_match_numpy(n: int) -> None:
    q, k, v = small_integers(M, M), small_integers(n * K, M, seed=1), small_integers(n * K, M, seed=2)
    *_, o = agree(overlapped, [q, k, v, tg.zeros((M, M)), n], 1)
    expected = (q.numpy() @ k.numpy().T > 0).astype(np.float32) @ v.numpy()
    assert np.array_equal(o, expected)
