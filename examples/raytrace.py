"""A ray-traced mesh: a sphere with bumps over a floor, with a shadow and light that bounces once.

python examples/raytrace.py [--device cuda:0] [--size N] [--picture PATH]"""

from __future__ import annotations

from typing import Any

import numpy as np
import show

import tegula as tg

FAR, OFF = 1e6, 1e-3
SUN = (0.5, 0.7, 0.51)


def bumpy_sphere(cuts: int = 96) -> tuple[np.ndarray, np.ndarray]:
    """A sphere whose radius waves, of 2 * cuts * cuts quadrilaterals of two triangles each; and a floor below."""
    up, azimuth = (
        np.linspace(0, np.pi, cuts + 1)[:, None],
        np.linspace(0, 2 * np.pi, 2 * cuts, endpoint=False)[None],
    )
    radius = 1 + 0.12 * np.sin(6 * azimuth) * np.sin(up) ** 3 * np.sin(5 * up)
    ball = [radius * np.sin(up) * np.cos(azimuth), radius * np.cos(up), radius * np.sin(up) * np.sin(azimuth)]
    points = np.stack(ball, axis=-1).reshape(-1, 3)
    i, j = np.meshgrid(np.arange(cuts), np.arange(2 * cuts), indexing="ij")
    a, b = i * 2 * cuts + j, i * 2 * cuts + (j + 1) % (2 * cuts)
    c, d = a + 2 * cuts, b + 2 * cuts
    faces = np.stack([a, b, d, a, d, c], axis=-1).reshape(-1, 3)
    floor = np.array([[-9, -1.15, -9], [9, -1.15, -9], [9, -1.15, 9], [-9, -1.15, 9]])
    below = len(points) + np.array([[0, 2, 1], [0, 3, 2]])
    return np.concatenate([points, floor]), np.concatenate([faces, below])


@tg.func
def sky(direction: tg.vec3):
    return tg.lerp(tg.vec3(0.9, 0.9, 0.85), tg.vec3(0.35, 0.55, 0.95), tg.max(direction.y, 0.0))


@tg.func
def colour(mesh: tg.Mesh, face: int, balls: int, point: tg.vec3):
    """Orange for the ball, squares of two grays for the floor."""
    dark = (int(tg.floor(2.0 * point.x)) + int(tg.floor(2.0 * point.z))) & 1
    floor = tg.where(dark == 1, tg.vec3(0.35, 0.35, 0.4), tg.vec3(0.75, 0.75, 0.75))
    return tg.where(face < balls, tg.vec3(0.9, 0.55, 0.25), floor)


@tg.func
def sunlight(mesh: tg.Mesh, point: tg.vec3, normal: tg.vec3, sun: tg.vec3):
    """The light of the sun at a point; 0 in the shadow of a face."""
    light = tg.max(tg.dot(normal, sun), 0.0)
    if light > 0.0 and tg.mesh_query_ray_anyhit(mesh, point + OFF * normal, sun, FAR):
        light = 0.0
    return light


@tg.kernel
def render(mesh: tg.Mesh, balls: int, sun: tg.vec3, bounces: int, image: tg.array2d[tg.vec3]):
    i, j = tg.tid()
    size = float(image.shape[0])
    rng = tg.rand_init(3, i * image.shape[1] + j)
    x, y = (2.0 * float(j) + 1.0 - float(image.shape[1])) / size, 1.0 - (2.0 * float(i) + 1.0) / size
    start, direction = tg.vec3(0.0, 0.5, 3.6), tg.normalize(tg.vec3(x, y - 0.3, -2.2))
    hit = tg.mesh_query_ray(mesh, start, direction, FAR)
    light = sky(direction)
    if hit.result:
        normal = hit.normal * hit.sign
        point = tg.mesh_eval_position(mesh, hit.face, hit.u, hit.v)
        light = tg.vec3()
        for _ in range(bounces):
            bounce_direction = tg.normalize(normal + tg.sample_unit_sphere_surface(rng))
            second_ray = tg.mesh_query_ray(mesh, point + OFF * normal, bounce_direction, FAR)
            if second_ray.result:
                second_hit = tg.mesh_eval_position(mesh, second_ray.face, second_ray.u, second_ray.v)
                next_normal = second_ray.normal * second_ray.sign
                light += colour(mesh, second_ray.face, balls, second_hit) * (
                    0.7 * sunlight(mesh, second_hit, next_normal, sun)
                )
            else:
                light += sky(bounce_direction)
        direct = tg.vec3(1.0, 0.95, 0.85) * sunlight(mesh, point, normal, sun)
        light = tg.cw_mul(colour(mesh, hit.face, balls, point), direct + 0.6 * light / float(bounces))
    image[i, j] = light


def run(size: int, bounces: int = 16) -> np.ndarray:
    points, faces = bumpy_sphere()
    mesh = tg.Mesh(tg.array(points, dtype=tg.vec3), tg.array(faces.reshape(-1), dtype=int))
    sun = np.array(SUN) / np.linalg.norm(SUN)
    image = tg.zeros((size, 2 * size), dtype=tg.vec3)
    tg.launch(
        render,
        image.shape,
        inputs=[mesh, len(faces) - 2, tg.vec3(*sun), bounces],
        outputs=[image],
        block_dim=64,
    )
    return image.numpy()


def draw(figure: Any, image: np.ndarray) -> None:
    show.images(figure, {"a mesh of 36866 faces": np.clip(image, 0, 1) ** (1 / 2.2)})


if __name__ == "__main__":
    show.main(run, draw, size=128)
