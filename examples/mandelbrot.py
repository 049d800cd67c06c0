"""The Mandelbrot set: a thread for each point, whose loop ends when the point has escaped.

python examples/mandelbrot.py [--device cuda:0] [--size N] [--picture PATH]"""

from __future__ import annotations

from typing import Any

import numpy as np
import show

import tegula as tg

MAX_ITERATIONS = 200
CENTRE, WIDTH = (-0.5, 0.0), 3.0


@tg.func
def square(z: tg.vec2d):
    return tg.vec2d(z.x * z.x - z.y * z.y, 2.0 * z.x * z.y)


@tg.kernel
def escape(times: tg.array2d[float], corner: tg.vec2d, step: tg.float64):
    """The smoothed number of iterations of z*z + c until z leaves a disc; MAX_ITERATIONS if z stays."""
    i, j = tg.tid()
    c = corner + tg.vec2d(tg.float64(j), tg.float64(i)) * step
    z, n = tg.vec2d(), 0
    while n < MAX_ITERATIONS and tg.length_sq(z) < 256.0:
        z = square(z) + c
        n += 1
    if n < MAX_ITERATIONS:
        times[i, j] = float(n) + 1.0 - tg.log2(float(tg.log2(tg.length_sq(z))) / 2.0)
    else:
        times[i, j] = float(MAX_ITERATIONS)


def corner_and_step(size: int) -> tuple[tg.vec2d, float]:
    """The first point of an image and the distance between two: points are in the middle of their pixels."""
    step = WIDTH / size
    first = (step - WIDTH) / 2.0
    return tg.vec2d(CENTRE[0] + first, CENTRE[1] + first), step


def run(size: int) -> np.ndarray:
    times = tg.zeros((size, size))
    tg.launch(escape, (size, size), inputs=[times, *corner_and_step(size)])
    return times.numpy()


def draw(figure: Any, times: np.ndarray) -> None:
    show.images(figure, {"iterations until z² + c escapes": np.log(times)}, cmap="magma")


if __name__ == "__main__":
    show.main(run, draw, size=512)
