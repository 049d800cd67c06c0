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
    way = np.stack([2 * x / SIZE - 2, 1 - 2 * y / SIZE - 0.3, np.full_like(x, -2.2)], -1)
    way /= np.linalg.norm(way, axis=-1, keepdims=True)
    up = np.maximum(way[..., 1:2], 0)
    sky = (1 - up) * np.array([0.9, 0.9, 0.85]) + up * np.array([0.35, 0.55, 0.95])
    # Seen from 0.5 above the middle, the floor ends where rays that go down leave its square.
    start = np.array([0.0, 0.5, 3.6])
    past = np.linalg.norm(np.cross(way, -start), axis=-1)
    with np.errstate(divide="ignore"):
        floor = start + way * np.where(way[..., 1:2] < 0, (-1.15 - 0.5) / way[..., 1:2], np.inf)
    outside = ~((way[..., 1] < 0) & (np.abs(floor[..., 0]) < 9.2) & (np.abs(floor[..., 2]) < 9.2))
    open_sky = outside & (past > 1.2)
    assert open_sky.sum() > 300
    np.testing.assert_allclose(image[open_sky], sky[open_sky], atol=1e-5)
    ball = past < 0.8
    assert (np.abs(image - sky)[ball] > 0.01).any(axis=-1).mean() > 0.95
    is_visible = (
        (way[..., 1] < 0) & (past > 1.3) & (np.abs(floor[..., :1]) < 5).all(-1) & (np.abs(floor[..., 2]) < 5)
    )
    sun = np.array(raytrace.SUN) / np.linalg.norm(raytrace.SUN)
    shaded = np.linalg.norm(np.cross(floor, sun), axis=-1) < 0.8
    bright = image.mean(axis=-1)
    assert bright[is_visible & shaded].mean() < 0.7 * bright[is_visible & ~shaded].mean()
