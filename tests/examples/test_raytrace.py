"""examples/raytrace.py: the sky and the floor cover the expected pixels, and the ball has a shadow."""

from __future__ import annotations

import numpy as np
import pytest
import raytrace

pytestmark = [pytest.mark.machine_code, pytest.mark.slow]
SIZE = 32


def test_raytrace_example_renders_sky_ball_and_shadow() -> None:
    image = raytrace.run(SIZE, bounces=2).astype(np.float64)
    y, x = np.mgrid[0:SIZE, 0 : 2 * SIZE] + 0.5
    direction = np.stack([2 * x / SIZE - 2, 1 - 2 * y / SIZE - 0.3, np.full_like(x, -2.2)], -1)
    direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
    up = np.maximum(direction[..., 1:2], 0)
    sky = (1 - up) * np.array([0.9, 0.9, 0.85]) + up * np.array([0.35, 0.55, 0.95])
    # Seen from 0.5 above the middle, the floor ends where rays that go down leave its square.
    start = np.array([0.0, 0.5, 3.6])
    distance = np.linalg.norm(np.cross(direction, -start), axis=-1)
    with np.errstate(divide="ignore"):
        floor = start + direction * np.where(
            direction[..., 1:2] < 0, (-1.15 - 0.5) / direction[..., 1:2], np.inf
        )
    outside = ~((direction[..., 1] < 0) & (np.abs(floor[..., 0]) < 9.2) & (np.abs(floor[..., 2]) < 9.2))
    open_sky = outside & (distance > 1.2)
    assert open_sky.sum() > 300
    np.testing.assert_allclose(image[open_sky], sky[open_sky], atol=1e-5)
    ball = distance < 0.8
    assert (np.abs(image - sky)[ball] > 0.01).any(axis=-1).mean() > 0.95
    is_visible = (
        (direction[..., 1] < 0)
        & (distance > 1.3)
        & (np.abs(floor[..., :1]) < 5).all(-1)
        & (np.abs(floor[..., 2]) < 5)
    )
    sun = np.array(raytrace.SUN) / np.linalg.norm(raytrace.SUN)
    shaded = np.linalg.norm(np.cross(floor, sun), axis=-1) < 0.8
    bright = image.mean(axis=-1)
    assert bright[is_visible & shaded].mean() < 0.7 * bright[is_visible & ~shaded].mean()
