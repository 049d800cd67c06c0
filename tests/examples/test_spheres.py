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
def white(direction: tg.vec3):
    return tg.vec3(1.0, 1.0, 1.0)


def directions() -> np.ndarray:
    """The rays through the middles of pixels, in float64."""
    y, x = np.mgrid[0:SIZE, 0 : 2 * SIZE] + 0.5
    direction = np.stack([2.0 * x / SIZE - 2.0, 1.0 - 2.0 * y / SIZE, np.full_like(x, -2.0)], -1)
    return direction / np.linalg.norm(direction, axis=-1, keepdims=True)


def render_ball(mirror: float, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """The picture of a ball of radius 1 in the middle."""
    ball = spheres.Sphere((0, 0, 0), 1.0, COLOUR, mirror)
    monkeypatch.setattr(spheres, "scene", lambda: [ball])
    return spheres.run(SIZE)


def ray_distances() -> np.ndarray:
    """The distances of the rays from the centre of the ball."""
    direction = directions()
    return np.linalg.norm(np.cross(direction, [0.0, 0.0, 3.0]), axis=-1)


def test_spheres_example_shades_a_ball_under_one_light(monkeypatch: pytest.MonkeyPatch) -> None:
    """Light that a ball scatters reaches the sky: each path has the light of the sky times the colour."""
    monkeypatch.setattr(spheres, "sky", white)
    actual, distance = render_ball(0.0, monkeypatch), ray_distances()
    np.testing.assert_allclose(
        actual[distance < 0.85], np.broadcast_to(COLOUR, (*actual.shape,))[distance < 0.85], rtol=1e-5
    )
    np.testing.assert_allclose(actual[distance > 1.15], 1.0, rtol=1e-5)


def test_spheres_example_reflects_the_sky_in_a_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    actual, direction, distance = render_ball(1.0, monkeypatch), directions(), ray_distances()
    start = np.array([0.0, 0.0, 3.0])
    closest_parameter = -direction @ start
    point = start + (closest_parameter - np.sqrt(np.maximum(1.0 - distance**2, 0.0)))[..., None] * direction
    reflected = direction - 2.0 * (direction * point).sum(-1, keepdims=True) * point
    up = 0.5 + 0.5 * reflected[..., 1:2]
    sky = (1.0 - up) * [1.0, 0.9, 0.8] + up * [0.4, 0.6, 1.0]
    inside = distance < 0.7
    np.testing.assert_allclose(actual[inside], (COLOUR * sky)[inside], atol=0.01)
