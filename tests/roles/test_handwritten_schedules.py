"""Handwritten schedules: barriers, asynchronous copies, fences, and ops of one thread."""

from __future__ import annotations

import numpy as np
import pytest
from exact_data import agree, small_integers

import tegula as tg
from support.handwritten_schedules import (
    ROW,
    K,
    M,
    N,
    S,
    alternating_roles,
    copies,
    matmul,
    one_buffer,
    staged_out,
)
from tegula import errors as E

pytestmark = pytest.mark.machine_code

COUNTS = (0, 1, S - 1, S, S + 1, 20)


@tg.kernel
def piped_matmul(a: tg.array2d[float], b: tg.array2d[float], c: tg.array2d[float], n: int):
    i, j = tg.tid()
    left = tg.tile_pipe(shape=(M, K), dtype=float, stages=S)
    right = tg.tile_pipe(shape=(K, N), dtype=float, stages=S)
    with tg.ws(0, registers=24):
        for k in range(n):
            tg.tile_pipe_load(left, a, offset=(i * M, k * K))
            tg.tile_pipe_load(right, b, offset=(k * K, j * N))
    with tg.ws(1, 2, registers=240):
        total = tg.tile_zeros(shape=(M, N))
        for _k in range(n):
            tg.tile_matmul(tg.tile_pipe_pop(left), tg.tile_pipe_pop(right), total)
        tg.tile_store(c, total, offset=(i * M, j * N))


def rows(n: int) -> tuple[tg.array, tg.array]:
    return small_integers(max(n, 1), ROW), tg.zeros((max(n, 1), ROW))


@pytest.mark.parametrize("n", COUNTS)
@pytest.mark.parametrize(("kernel", "factor"), [(copies, 2), (one_buffer, 3)])
def test_schedules_by_hand_over_rows_match_numpy(kernel: tg.Kernel, factor: int, n: int) -> None:
    x, out = rows(n)
    (_, actual) = agree(kernel, [x, out, n], 1)
    assert np.array_equal(actual, factor * x.numpy() if n else 0 * actual)


@pytest.mark.parametrize("n", COUNTS)
def test_matmuls_by_hand_agree_with_pipes(n: int) -> None:
    a, b = small_integers(2 * M, K * n), small_integers(K * n, 2 * N)
    results = [
        agree(kernel, [a, b, tg.zeros((2 * M, 2 * N)), n], (2, 2))[2] for kernel in (matmul, piped_matmul)
    ]
    assert np.array_equal(*results)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_bulk_stores_of_schedules_by_hand_match_numpy(n: int) -> None:
    """Part of the last tile is outside of the array."""
    x = small_integers(max(4 * n - 1, 1), ROW)
    out = tg.zeros(x.shape)
    (_, actual) = agree(staged_out, [x, out, n], 1)
    assert np.array_equal(actual, x.numpy() + 1 if n else 0 * actual)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_roles_that_alternate_over_rows_match_numpy(n: int) -> None:
    x, out = rows(2 * n)
    (_, actual) = agree(alternating_roles, [x, out, n], 1)
    assert np.array_equal(actual, x.numpy() if n else 0 * actual)


def test_gradients_of_schedules_by_hand_are_refused() -> None:
    x, out = tg.ones((2, ROW), requires_grad=True), tg.zeros((2, ROW), requires_grad=True)
    with tg.Tape() as tape:
        tg.launch_tiled(copies, dim=1, inputs=[x], outputs=[out, 2])
    with pytest.raises(E.NoGradient):
        tape.backward(grads={out: tg.ones(out.shape)})
