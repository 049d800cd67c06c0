"""Two galaxies that collide: every body attracts all other bodies.

python examples/nbody.py [--device cuda:0] [--size BODIES] [--picture PATH]"""

from __future__ import annotations

from typing import Any

import numpy as np
import show

import tegula as tg

TILE = 64
SOFTENING = 0.1
DT, STEPS, FRAMES = 0.01, 400, 3


@tg.func
def attraction(offset: tg.vec3, mass: float):
    r2 = tg.length_sq(offset) + SOFTENING * SOFTENING
    return offset * (mass / (r2 * tg.sqrt(r2)))


@tg.kernel
def kick(position: tg.array[tg.vec3], mass: tg.array[float], velocity: tg.array[tg.vec3]):
    """A body for each thread; the block loads all bodies tile after tile. Beyond the last body, masses are 0."""
    i = tg.tid()
    own_position, pull = position[i], tg.vec3()
    for k in range(0, position.shape[0], TILE):
        others = tg.tile_load(position, shape=TILE, offset=k)
        masses = tg.tile_load(mass, shape=TILE, offset=k)
        for j in range(TILE):
            pull += attraction(others[j] - own_position, masses[j])
    velocity[i] = velocity[i] + pull * DT


@tg.kernel
def drift(velocity: tg.array[tg.vec3], position: tg.array[tg.vec3]):
    i = tg.tid()
    position[i] = position[i] + velocity[i] * DT


def galaxies(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions, velocities and masses of two discs of stars, each of which orbits a heavy centre."""
    rng = np.random.default_rng(0)
    half = size // 2
    position, velocity = np.zeros((size, 3)), np.zeros((size, 3))
    mass = np.full(size, 0.2 / size)
    for stars, side in ((slice(0, half), -1.0), (slice(half, size), 1.0)):
        n = stars.stop - stars.start
        radius, angle = np.sqrt(rng.uniform(0.02, 1.0, n)), rng.uniform(0.0, 2.0 * np.pi, n)
        radius[0] = 0.0
        mass[stars.start] = 1.0
        direction = np.stack([np.cos(angle), np.sin(angle), 0.05 * rng.standard_normal(n)], 1)
        position[stars] = radius[:, None] * direction + [1.6 * side, 0.8 * side, 0.0]
        speed = np.sqrt(radius**2 / (radius**2 + SOFTENING**2) ** 1.5)
        velocity[stars] = speed[:, None] * np.stack([-direction[:, 1], direction[:, 0], 0.0 * angle], 1)
        velocity[stars] += [-0.5 * side, 0.0, 0.0]
    return position, velocity, mass


def run(size: int, steps: int = STEPS, block_dim: int = 64) -> list[np.ndarray]:
    """The positions at FRAMES times, the first and the last time included."""
    points, speeds, masses = galaxies(size)
    position, velocity = tg.array(points, dtype=tg.vec3), tg.array(speeds, dtype=tg.vec3)
    mass = tg.array(masses, dtype=float)
    frames = [position.numpy().copy()]
    for step in range(1, steps + 1):
        tg.launch(kick, size, inputs=[position, mass], outputs=[velocity], block_dim=block_dim)
        tg.launch(drift, size, inputs=[velocity], outputs=[position], block_dim=block_dim)
        if step % (steps // (FRAMES - 1)) == 0:
            frames.append(position.numpy().copy())
    return frames


def draw(figure: Any, frames: list[np.ndarray]) -> None:
    for k, (axes, frame) in enumerate(zip(figure.subplots(1, len(frames)), frames, strict=True)):
        half = len(frame) // 2
        for stars in (frame[:half], frame[half:]):
            axes.scatter(stars[:, 0], stars[:, 1], s=0.3, linewidths=0, rasterized=True)
        axes.set(xlim=(-3, 3), ylim=(-3, 3), aspect="equal", title=f"t = {k * STEPS * DT / (FRAMES - 1):g}")
        axes.set_axis_off()


if __name__ == "__main__":
    show.main(run, draw, size=4096)
