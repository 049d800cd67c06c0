"""examples/cloth.py against NumPy in float64."""

from __future__ import annotations

import cloth
import numpy as np
import pytest

pytestmark = pytest.mark.machine_code
SIZE, STEPS = 7, 60


def reference() -> np.ndarray:
    x = cloth.flat_cloth(SIZE)
    v, gravity = np.zeros_like(x), np.array(cloth.GRAVITY)
    rest_length = cloth.WIDTH / (SIZE - 1)
    for _ in range(STEPS):
        force = gravity - cloth.DAMPING * v
        for di, dj in cloth.SPRINGS:
            for i in range(max(0, -di), min(SIZE, SIZE - di)):
                for j in range(max(0, -dj), min(SIZE, SIZE - dj)):
                    offset = x[i + di, j + dj] - x[i, j]
                    stretch = 1.0 - rest_length * np.hypot(di, dj) / np.linalg.norm(offset)
                    force[i, j] += cloth.STIFFNESS * stretch * offset
        v = v + cloth.DT * force
        x = x + cloth.DT * v
        distance = np.linalg.norm(x, axis=-1, keepdims=True)
        depth, normal = cloth.RADIUS + cloth.MARGIN - distance, x / distance
        normal_speed = np.minimum((v * normal).sum(-1, keepdims=True), 0.0)
        v = np.where(depth > 0.0, (v - normal_speed * normal) * cloth.FRICTION, v)
        x = np.where(depth > 0.0, x + depth * normal, x)
    return x


def test_cloth_example_matches_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloth, "DT", 4e-3)
    expected = reference()
    assert np.linalg.norm(expected, axis=-1).min() < cloth.RADIUS + cloth.MARGIN + 1e-6, (
        "the cloth is on the ball"
    )
    np.testing.assert_allclose(cloth.run(SIZE, STEPS), expected, atol=2e-4)
