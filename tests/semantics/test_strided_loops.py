"""Loops whose stride is the number of lanes and whose bound is a rounded length, so that the loops may contain
cooperative ops."""

from __future__ import annotations

import numpy as np
import pytest

import tegula as tg


@tg.kernel
def largest_and_norm(x: tg.array[float], largest: tg.array[float], norm: tg.array[float]):
    _, lane = tg.tid()
    length, lanes = x.shape[0], tg.block_dim()
    upper = ((length + lanes - 1) // lanes) * lanes
    result = tg.float32(-tg.inf)
    for i in range(lane, upper, lanes):
        v = tg.float32(-tg.inf)
        square = 0.0
        if i < length:
            v = x[i]
            square = v * v
        result = tg.max(result, tg.tile_max(tg.tile(v))[0])
        tg.tile_atomic_add(norm, tg.tile_sum(tg.tile(square)))
    if lane == 0:
        largest[0] = result


@pytest.mark.machine_code
@pytest.mark.parametrize("length", [0, 5, 128, 129, 1000])
def test_strided_loops_with_cooperative_ops_match_numpy(length: int) -> None:
    x = np.random.default_rng(length).standard_normal(length).astype(np.float32)
    a, largest, norm = tg.array(x, requires_grad=True), tg.zeros(1), tg.zeros(1, requires_grad=True)
    with tg.Tape() as tape:
        tg.launch_tiled(largest_and_norm, dim=[1], inputs=[a], outputs=[largest, norm], block_dim=64)
    assert largest.numpy()[0] == x.max(initial=-np.inf)
    np.testing.assert_allclose(norm.numpy()[0], (x.astype(np.float64) ** 2).sum(), rtol=1e-5)
    tape.backward(norm)
    assert a.grad is not None
    np.testing.assert_allclose(a.grad.numpy(), 2.0 * x, rtol=1e-6)


def test_strided_loops_by_another_lane_count_are_refused() -> None:
    """A wrapped length stays a multiple of the lane count only if the lane count is a power of two."""
    with pytest.raises(tg.CompileError, match="this range differs between threads of a block"):
        tg.launch_tiled(
            largest_and_norm, dim=[1], inputs=[tg.ones(5)], outputs=[tg.zeros(1), tg.zeros(1)], block_dim=96
        )
