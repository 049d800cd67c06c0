"""A fluid with a learned forcing: which constant force stirs a drop of dye into a ring?

The fluid is advected, forced and made free of divergence for STEPS steps, all of which a tape runs backwards.

python examples/fluid.py [--device cuda:0] [--size N] [--picture PATH]"""

from __future__ import annotations

from typing import Any

import numpy as np
import show

import tegula as tg

STEPS, JACOBI = 12, 8
TRIES, RATE = 40, 0.04


@tg.func
def periodic(field, i: int, j: int):
    """A point of a periodic field."""
    n = field.shape[0]
    return field[i - i // n * n, j - j // n * n]


@tg.func
def sample(field, point: tg.vec2):
    """A field between its points."""
    low = tg.floor(point)
    part, i, j = point - low, int(low.x), int(low.y)
    above = tg.lerp(periodic(field, i, j), periodic(field, i, j + 1), part.y)
    below = tg.lerp(periodic(field, i + 1, j), periodic(field, i + 1, j + 1), part.y)
    return tg.lerp(above, below, part.x)


@tg.kernel
def advect(velocity: tg.array2d[tg.vec2], field: tg.array, out: tg.array):
    """Semi-Lagrangian advection: the value one step ago at the point that the flow carries here."""
    i, j = tg.tid()
    out[i, j] = sample(field, tg.vec2(float(i), float(j)) - velocity[i, j])


@tg.kernel
def diverge(v: tg.array2d[tg.vec2], out: tg.array2d[float]):
    i, j = tg.tid()
    slope_i = periodic(v, i + 1, j).x - periodic(v, i - 1, j).x
    out[i, j] = 0.5 * (slope_i + periodic(v, i, j + 1).y - periodic(v, i, j - 1).y)


@tg.kernel
def relax(divergence: tg.array2d[float], p: tg.array2d[float], out: tg.array2d[float]):
    """A Jacobi iteration for the pressure."""
    i, j = tg.tid()
    column_sum = periodic(p, i + 1, j) + periodic(p, i - 1, j)
    row_sum = periodic(p, i, j + 1) + periodic(p, i, j - 1)
    out[i, j] = 0.25 * (column_sum + row_sum - divergence[i, j])


@tg.kernel
def project(velocity: tg.array2d[tg.vec2], p: tg.array2d[float], out: tg.array2d[tg.vec2]):
    i, j = tg.tid()
    slope_j = periodic(p, i, j + 1) - periodic(p, i, j - 1)
    out[i, j] = velocity[i, j] - 0.5 * tg.vec2(periodic(p, i + 1, j) - periodic(p, i - 1, j), slope_j)


def apply(kernel: Any, *inputs: Any, like: Any = None) -> Any:
    """The output of a kernel: a new array like the last input, because a tape does not record overwritten inputs."""
    out = tg.zeros_like(inputs[-1] if like is None else like, requires_grad=True)
    tg.launch(kernel, out.shape, inputs=inputs, outputs=[out])
    return out


def simulate_fluid(dye: Any, force: Any) -> Any:
    """The dye after STEPS steps of a fluid that is at rest in the beginning."""
    velocity = tg.zeros_like(force, requires_grad=True)
    for _ in range(STEPS):
        velocity = apply(advect, velocity, velocity) + force
        divergence = apply(diverge, velocity, like=dye)
        pressure = tg.zeros_like(dye, requires_grad=True)
        for _ in range(JACOBI):
            pressure = apply(relax, divergence, pressure)
        velocity = apply(project, velocity, pressure, like=velocity)
        dye = apply(advect, velocity, dye)
    return dye


def shapes(size: int) -> tuple[np.ndarray, np.ndarray]:
    """A drop, and a ring with as much dye."""
    y, x = np.mgrid[-1 : 1 : size * 1j, -1 : 1 : size * 1j]
    r2 = x**2 + y**2
    drop, ring = np.exp(-((r2 / 0.12) ** 2)), np.exp(-(((np.sqrt(r2) - 0.45) / 0.13) ** 2))
    return drop.astype(np.float32), (ring * drop.sum() / ring.sum()).astype(np.float32)


def run(size: int, tries: int = TRIES) -> dict[str, Any]:
    drop, ring = (tg.array(shape) for shape in shapes(size))
    force: Any = tg.zeros((size, size), dtype=tg.vec2, requires_grad=True)
    adam = tg.optim.Adam([force], lr=RATE)
    losses = []
    for _ in range(tries):
        with tg.Tape() as tape:
            dye = simulate_fluid(drop, force)
            loss = ((dye - ring) ** 2.0).sum()
        tape.backward(loss)
        losses.append(loss.item())
        adam.step([force.grad])
        force.grad.zero_()
    images = {"drop": drop, "ring": ring, "dye": simulate_fluid(drop, force), "force": force}
    return {name: a.numpy() for name, a in images.items()} | {"losses": losses}


def draw(figure: Any, r: dict[str, Any]) -> None:
    strength = np.linalg.norm(r["force"], axis=-1)
    show.images(figure, {"drop": r["drop"], "wanted": r["ring"], "stirred": r["dye"], "force": strength})


if __name__ == "__main__":
    show.main(run, draw, size=48)
