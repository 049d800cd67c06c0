"""examples/mandelbrot.py against complex numbers of NumPy."""

from __future__ import annotations

import mandelbrot
import numpy as np
import pytest

pytestmark = pytest.mark.machine_code


def reference(size: int) -> np.ndarray:
    (x, y), step = mandelbrot.corner_and_step(size)
    c = (x + step * np.arange(size)) + 1j * (y + step * np.arange(size))[:, None]
    z, times = np.zeros_like(c), np.full(c.shape, float(mandelbrot.MAX_ITERATIONS))
    inside = np.ones(c.shape, bool)
    for n in range(1, mandelbrot.MAX_ITERATIONS):
        z[inside] = z[inside] ** 2 + c[inside]
        escaped = inside & (np.abs(z) >= 16.0)
        times[escaped] = n + 1 - np.log2(np.log2(np.abs(z[escaped])))
        inside &= ~escaped
    return times


def test_mandelbrot_example_matches_numpy() -> None:
    """Except points at the border, which amplify the rounding of each iteration."""
    actual, expected = mandelbrot.run(60), reference(60)
    assert np.isclose(actual, expected, rtol=1e-4).mean() > 0.995
    assert ((actual == mandelbrot.MAX_ITERATIONS) == (expected == mandelbrot.MAX_ITERATIONS)).mean() > 0.999
