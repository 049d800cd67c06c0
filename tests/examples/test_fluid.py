"""examples/fluid.py against NumPy in float64."""

from __future__ import annotations

import fluid
import numpy as np
import pytest

import tegula as tg

pytestmark = pytest.mark.machine_code
SIZE = 12


def sample(field: np.ndarray, point: np.ndarray) -> np.ndarray:
    """A periodic field, interpolated at positions (2, n, n)."""
    low = np.floor(point).astype(int)
    part = (point - low).reshape(2, *point.shape[1:], *[1] * (field.ndim - 2))
    (i, j), (u, v) = low, part
    corners = [field[(i + a) % SIZE, (j + b) % SIZE] for a in (0, 1) for b in (0, 1)]
    above, below = ((1.0 - v) * corners[k] + v * corners[k + 1] for k in (0, 2))
    return (1.0 - u) * above + u * below


def rolled(field: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """The next and the previous points along an axis."""
    return np.roll(field, -1, axis), np.roll(field, 1, axis)


def simulate_fluid_in_numpy(dye: np.ndarray, force: np.ndarray) -> np.ndarray:
    points = np.mgrid[0:SIZE, 0:SIZE].astype(np.float64)
    v = np.zeros_like(force)
    for _ in range(fluid.STEPS):
        v = sample(v, points - np.moveaxis(v, -1, 0)) + force
        divergence = sum(0.5 * np.subtract(*rolled(v[..., k], k)) for k in (0, 1))
        p = np.zeros_like(dye)
        for _ in range(fluid.JACOBI):
            p = 0.25 * (sum(sum(rolled(p, k)) for k in (0, 1)) - divergence)
        v = v - np.stack([0.5 * np.subtract(*rolled(p, k)) for k in (0, 1)], -1)
        dye = sample(dye, points - np.moveaxis(v, -1, 0))
    return dye


def test_fluid_example_and_its_gradient_match_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fluid, "STEPS", 4)
    monkeypatch.setattr(fluid, "JACOBI", 3)
    rng = np.random.default_rng(0)
    dye, weights = rng.random((2, SIZE, SIZE))
    force, direction = 0.3 * rng.standard_normal((2, SIZE, SIZE, 2))
    force_array = tg.array(force, dtype=tg.vec2, requires_grad=True)
    with tg.Tape() as tape:
        actual = fluid.simulate_fluid(tg.array(dye, dtype=float), force_array)
    tape.backward(grads={actual: tg.array(weights, dtype=float)})
    np.testing.assert_allclose(actual.numpy(), simulate_fluid_in_numpy(dye, force), atol=1e-5)
    step = 1e-6
    slope = (
        weights
        * (
            simulate_fluid_in_numpy(dye, force + step * direction)
            - simulate_fluid_in_numpy(dye, force - step * direction)
        )
    ).sum() / (2.0 * step)
    np.testing.assert_allclose((force_array.grad.numpy() * direction).sum(), slope, rtol=1e-3)


@pytest.mark.slow
def test_fluid_example_recovers_the_force() -> None:
    actual = fluid.run(24, tries=20)["losses"]
    assert actual[-1] < 0.3 * actual[0]
