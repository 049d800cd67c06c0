"""examples/heat.py against NumPy in float64, and its gradient against the transposed equation."""

from __future__ import annotations

import heat
import numpy as np
import pytest

import tegula as tg

pytestmark = pytest.mark.machine_code
SIZE = 40  # no multiple of a tile


def diffuse_in_float64(plate: np.ndarray) -> np.ndarray:
    for _ in range(heat.STEPS):
        t = np.pad(plate, 1)
        neighbour_sum = t[:-2, 1:-1] + t[2:, 1:-1] + t[1:-1, :-2] + t[1:-1, 2:]
        plate = plate + heat.SPEED * (neighbour_sum - 4.0 * plate)
    return plate


@pytest.mark.parametrize("block_dim", [33, 64])
def test_heat_example_matches_float64(block_dim: int) -> None:
    plate = np.random.default_rng(0).random((SIZE, SIZE))
    actual = heat.diffuse(tg.array(plate, dtype=float), block_dim).numpy()
    np.testing.assert_allclose(actual, diffuse_in_float64(plate), rtol=1e-5, atol=1e-6)


def test_the_gradient_of_the_heat_example_solves_the_adjoint_equation() -> None:
    """A step is a symmetric matrix: the gradient of |later(x) - m|**2 is 2 later(later(x) - m)."""
    guess, measured = np.random.default_rng(1).random((2, SIZE, SIZE))
    loss, slope = heat.gradient(
        tg.array(guess, dtype=float, requires_grad=True), tg.array(measured, dtype=float)
    )
    residual = diffuse_in_float64(guess) - measured
    np.testing.assert_allclose(loss, (residual**2).sum(), rtol=1e-5)
    np.testing.assert_allclose(slope.numpy(), 2.0 * diffuse_in_float64(residual), rtol=1e-4, atol=1e-4)


def test_heat_example_recovers_the_initial_state() -> None:
    result = heat.run(64, tries=30)
    assert result["losses"][-1] < 1e-3 * result["losses"][0]
    recovered_error, measured_error = (
        np.abs(result[key] - result["begin"]).mean() for key in ("found", "measured")
    )
    assert recovered_error < 0.75 * measured_error
