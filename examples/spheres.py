"""Path-traced spheres: light is followed backwards from each pixel, from sphere to sphere, to the sky.

python examples/spheres.py [--device cuda:0] [--size N] [--picture PATH]"""

from __future__ import annotations

from typing import Any

import numpy as np
import show

import tegula as tg

PATHS, BOUNCES = 64, 6
FAR, NEAR = 1e6, 1e-3


@tg.struct
class Sphere:
    centre: tg.vec3
    radius: float
    colour: tg.vec3
    mirror: float


@tg.func
def distance(s: Sphere, start: tg.vec3, direction: tg.vec3):
    """The distance of a sphere along a ray with a direction of length 1; FAR if the ray misses the sphere."""
    to_centre = s.centre - start
    closest = tg.dot(to_centre, direction)
    half_chord_squared = s.radius * s.radius - tg.length_sq(to_centre - closest * direction)
    if half_chord_squared < 0.0:
        return FAR
    half_chord = tg.sqrt(half_chord_squared)
    near = closest - half_chord if closest - half_chord > NEAR else closest + half_chord
    return near if near > NEAR else FAR


@tg.func
def sky(direction: tg.vec3):
    return tg.lerp(tg.vec3(1.0, 0.9, 0.8), tg.vec3(0.4, 0.6, 1.0), 0.5 + 0.5 * direction.y)


@tg.func
def trace(spheres: tg.array[Sphere], start: tg.vec3, direction: tg.vec3, rng: tg.InOut[tg.uint32]):
    """The light that arrives along one ray."""
    light = tg.vec3(1.0, 1.0, 1.0)
    for _ in range(BOUNCES):
        near, hit = FAR, -1
        for k in range(spheres.shape[0]):
            d = distance(spheres[k], start, direction)
            if d < near:
                near, hit = d, k
        if hit < 0:
            return tg.cw_mul(light, sky(direction))
        s = spheres[hit]
        start += near * direction
        normal = (start - s.centre) / s.radius
        scattered = tg.normalize(normal + tg.sample_unit_sphere_surface(rng))
        reflected = direction - 2.0 * tg.dot(direction, normal) * normal
        direction = tg.normalize(tg.lerp(scattered, reflected, s.mirror))
        light = tg.cw_mul(light, s.colour)
    return tg.vec3()


@tg.kernel
def render(spheres: tg.array[Sphere], image: tg.array2d[tg.vec3]):
    i, j = tg.tid()
    size = float(image.shape[0])
    rng = tg.rand_init(7, i * image.shape[1] + j)
    total = tg.vec3()
    for _ in range(PATHS):
        x, y = float(j) + tg.randf(rng), float(i) + tg.randf(rng)
        direction = tg.vec3(2.0 * x / size - float(image.shape[1]) / size, 1.0 - 2.0 * y / size, -2.0)
        total += trace(spheres, tg.vec3(0.0, 0.0, 3.0), tg.normalize(direction), rng)
    image[i, j] = total / float(PATHS)


def scene() -> list[Sphere]:
    """A floor, which is a large sphere too, and a row of balls from matt to mirror."""
    balls = [Sphere((0.0, -101.0, 0.0), 100.0, (0.6, 0.6, 0.6), 0.0)]
    colours = ((0.9, 0.3, 0.2), (0.9, 0.8, 0.3), (0.3, 0.7, 0.4), (0.3, 0.5, 0.9), (0.9, 0.9, 0.9))
    for k, colour in enumerate(colours):
        balls.append(Sphere((1.05 * (k - 2), -0.5 + 0.15 * abs(k - 2), -0.4 * (k % 2)), 0.5, colour, k / 4))
    return balls


def run(size: int) -> np.ndarray:
    image = tg.zeros((size, 2 * size), dtype=tg.vec3)
    tg.launch(render, image.shape, inputs=[tg.array(scene(), dtype=Sphere)], outputs=[image], block_dim=64)
    return image.numpy()


def draw(figure: Any, image: np.ndarray) -> None:
    show.images(figure, {f"{PATHS} paths a pixel": np.clip(image, 0, 1) ** (1 / 2.2)})


if __name__ == "__main__":
    show.main(run, draw, size=128)
