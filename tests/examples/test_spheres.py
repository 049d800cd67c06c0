"""examples/spheres.py against known pictures: one sphere under one light, and a mirror."""

from __future__ import annotations

import numpy as np
import pytest
import spheres

import tegula as tg

pytestmark = pytest.mark.machine_code
SIZE = 24
COLOUR = np.array([0.25, 0.5, 0.75])


@tg.func
def white(way: tg.vec3):
    return tg.vec3(1.0, 1.0, 1.0)


def directions() -> np.ndarray:
    """The rays through the middles of pixels, in float64."""
    y, x = np.mgrid[0:SIZE, 0 : 2 * SIZE] + 0.5
    way = np.stack([2.0 * x / SIZE - 2.0, 1.0 - 2.0 * y / SIZE, np.full_like(x, -2.0)], -1)
    return way / np.linalg.norm(way, axis=-1, keepdims=True)


def pictured(mirror: float, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """The picture of a ball of radius 1 in the middle."""
    ball = spheres.Sphere((0, 0, 0), 1.0, COLOUR, mirror)
    monkeypatch.setattr(spheres, "scene", lambda: [ball])
    return spheres.run(SIZE)


def nearest() -> np.ndarray:
    """The distances of the rays from the centre of the ball."""
    way = directions()
    return np.linalg.norm(np.cross(way, [0.0, 0.0, 3.0]), axis=-1)


def test_spheres_example_shades_a_ball_under_one_light(monkeypatch: pytest.MonkeyPatch) -> None:
    """Light that a ball scatters reaches the sky: each path has the light of the sky times the colour."""
    monkeypatch.setattr(spheres, "sky", white)
    actual, near = pictured(0.0, monkeypatch), nearest()
    np.testing.assert_allclose(
        actual[near < 0.85], np.broadcast_to(COLOUR, (*actual.shape,))[near < 0.85], rtol=1e-5
    )
    np.testing.assert_allclose(actual[near > 1.15], 1.0, rtol=1e-5)


def test_spheres_example_reflects_the_sky_in_a_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    actual, way, near = pictured(1.0, monkeypatch), directions(), nearest()
    start = np.array([0.0, 0.0, 3.0])
    along = -way @ start
    point = start + (along - np.sqrt(np.maximum(1.0 - near**2, 0.0)))[..., None] * way
    reflected = way - 2.0 * (way * point).sum(-1, keepdims=True) * point
    up = 0.5 + 0.5 * reflected[..., 1:2]
    sky = (1.0 - up) * [1.0, 0.9, 0.8] + up * [0.4, 0.6, 1.0]
    inside = near < 0.7
    np.testing.assert_allclose(actual[inside], (COLOUR * sky)[inside], atol=0.01)
