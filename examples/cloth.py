"""A cloth of springs that falls on a ball: a thread for each point of the cloth.

python examples/cloth.py [--device cuda:0] [--size N] [--picture PATH]"""

from __future__ import annotations

from typing import Any

import numpy as np
import show

import tegula as tg

WIDTH, DT, STEPS = 2.0, 2e-3, 900
STIFFNESS, DAMPING, GRAVITY = 2000.0, 3.0, tg.vec3(0.0, 0.0, -9.81)
RADIUS, MARGIN, FRICTION = 0.6, 0.02, 0.9
SPRINGS = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j] + [(-2, 0), (2, 0), (0, -2), (0, 2)]


@tg.func
def pull(x: tg.array2d[tg.vec3], i: int, j: int, k: int, m: int):
    """The acceleration of point (i, j) by the spring to point (k, m), which may be outside the cloth."""
    if k < 0 or m < 0 or k >= x.shape[0] or m >= x.shape[1]:
        return tg.vec3()
    offset = x[k, m] - x[i, j]
    rest = WIDTH / float(x.shape[0] - 1) * tg.length(tg.vec2(float(k - i), float(m - j)))
    return STIFFNESS * (1.0 - rest / tg.length(offset)) * offset


@tg.kernel
def step(x: tg.array2d[tg.vec3], v: tg.array2d[tg.vec3], new_x: tg.array2d[tg.vec3]):
    """A step of Euler's method that takes positions from the new velocities; points stay out of the ball."""
    i, j = tg.tid()
    force = GRAVITY - DAMPING * v[i, j]
    for di, dj in tg.static(SPRINGS):
        force += pull(x, i, j, i + di, j + dj)
    speed = v[i, j] + DT * force
    new_position = x[i, j] + DT * speed
    depth = RADIUS + MARGIN - tg.length(new_position)
    if depth > 0.0:
        normal = tg.normalize(new_position)
        new_position += depth * normal
        speed = (speed - tg.min(tg.dot(speed, normal), 0.0) * normal) * FRICTION
    v[i, j] = speed
    new_x[i, j] = new_position


def flat_cloth(size: int) -> np.ndarray:
    """A square cloth above the ball, at an angle."""
    a, b = np.meshgrid(*2 * [np.linspace(-WIDTH / 2, WIDTH / 2, size)], indexing="ij")
    points = a * np.cos(0.3) - b * np.sin(0.3) + 0.1, a * np.sin(0.3) + b * np.cos(0.3)
    return np.stack([*points, np.full_like(a, RADIUS + 0.1)], -1)


def run(size: int, steps: int = STEPS) -> np.ndarray:
    """The points after some steps."""
    x = tg.array(flat_cloth(size), dtype=tg.vec3)
    v, new_x = tg.zeros_like(x), tg.empty_like(x)
    for _ in range(steps):
        tg.launch(step, x.shape, inputs=[x, v], outputs=[new_x])
        x, new_x = new_x, x
    return x.numpy()


def draw(figure: Any, points: np.ndarray) -> None:
    axes = figure.add_subplot(projection="3d")
    axes.plot_surface(
        *np.moveaxis(points, -1, 0), rstride=1, cstride=1, linewidth=0.2, edgecolor="k", rasterized=True
    )
    axes.set_aspect("equal")
    axes.set_box_aspect(None, zoom=1.5)
    axes.view_init(25, -50)
    axes.set_axis_off()


if __name__ == "__main__":
    show.main(run, draw, size=40)
