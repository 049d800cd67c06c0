"""Gradients of transposed operands: the transpose of a matmul's result is replaced by a transpose of an operand."""

from __future__ import annotations

import numpy as np
import pytest

import tegula as tg
from tegula.ops.tile import dtype_of
from tegula.passes.specialise.find_matmuls import transposes

pytestmark = pytest.mark.machine_code

N = 32


@tg.kernel
def scores(
    q: tg.array2d[tg.bfloat16], k: tg.array2d[tg.bfloat16], row: tg.array1d[int], out: tg.array1d[float]
):
    """Sums of squares of q @ k.T. The rows of k are selected by an array, so no block owns their gradients."""
    i = tg.tid()
    x = tg.tile_load(q, shape=(N, N), offset=(i * N, 0))
    y = tg.tile_load(k, shape=(N, N), offset=(row[i], 0))
    s = tg.tile_zeros(shape=(N, N))
    tg.tile_matmul(x, tg.tile_transpose(y), s)
    tg.tile_store(out, tg.tile_reshape(tg.tile_sum(s * s), shape=(1,)), offset=i)


def test_no_float32_result_of_a_matmul_is_transposed() -> None:
    rng = np.random.default_rng(5)
    q, k = (rng.integers(-2, 3, (2 * N, N)).astype(np.float64) for _ in range(2))
    rows = np.array([16, 7], np.int32)
    left, right = (tg.array(x, dtype=tg.bfloat16, requires_grad=True) for x in (q, k))
    out = tg.zeros(2, requires_grad=True)
    with tg.Tape() as tape:
        tg.launch_tiled(scores, dim=2, inputs=[left, right, tg.array(rows), out], block_dim=64)
    tape.backward(grads={out: tg.full(2, 0.25)})
    expected_q, expected_k = np.zeros_like(q), np.zeros_like(k)
    for i, row in enumerate(rows):
        x, y = q[i * N : i * N + N], k[row : row + N]
        g = 0.5 * x @ y.T
        expected_q[i * N : i * N + N] += g @ y
        expected_k[row : row + N] += g.T @ x
    for actual, expected in ((left, expected_q), (right, expected_k)):
        error = np.abs(actual.grad.numpy().astype(np.float64) - expected).max()
        assert error <= 2**-7 * np.abs(expected).max()
    steps = list(scores.adjoints.values())[-1].launched_parts
    remaining_transposes = [op for step in steps for op in step.step.kernel.walk() if transposes(op)]
    assert {dtype_of(op.tile.type) for op in remaining_transposes} == {tg.bfloat16}
