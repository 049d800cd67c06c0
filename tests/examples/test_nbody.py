"""examples/nbody.py against NumPy in float64."""

from __future__ import annotations

import nbody
import numpy as np
import pytest

pytestmark = pytest.mark.machine_code
BODIES, STEPS = 100, 40


def reference() -> np.ndarray:
    position, velocity, mass = nbody.galaxies(BODIES)
    for _ in range(STEPS):
        offsets = position - position[:, None]
        r2 = (offsets**2).sum(-1) + nbody.SOFTENING**2
        velocity += nbody.DT * (offsets * (mass / r2**1.5)[..., None]).sum(1)
        position += nbody.DT * velocity
    return position


def test_nbody_orbits_match_float64() -> None:
    first, _, last = nbody.run(BODIES, STEPS)
    np.testing.assert_allclose(first, nbody.galaxies(BODIES)[0], rtol=1e-6)
    np.testing.assert_allclose(last, reference(), atol=2e-5)


@pytest.mark.parametrize("block_dim", [32, 100])
def test_nbody_has_the_same_bits_for_any_block_size(block_dim: int) -> None:
    actual = nbody.run(BODIES, STEPS, block_dim)
    np.testing.assert_array_equal(actual, nbody.run(BODIES, STEPS))
