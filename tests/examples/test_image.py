"""examples/image.py against NumPy in float64."""

from __future__ import annotations

import image
import numpy as np
import pytest

pytestmark = pytest.mark.machine_code
SIZE = 50  # no multiple of a tile in either direction
SMOOTH, SLOPE = np.array([1.0, 2.0, 1.0]), np.array([1.0, 0.0, -1.0])


def filtered(values: np.ndarray, down: np.ndarray, right: np.ndarray) -> np.ndarray:
    """A convolution with down[:, None] * right; values outside are 0."""
    for axis, weights in ((0, down), (1, right)):
        values = np.apply_along_axis(np.convolve, axis, values, weights, "same")
    return values


@pytest.mark.parametrize("block_dim", [33, 128])
def test_image_filters_match_float64(block_dim: int) -> None:
    actual = image.run(SIZE, block_dim)
    weights = image.WEIGHTS.astype(np.float64)
    blurred = filtered(image.drawing(SIZE).astype(np.float64), weights, weights)
    np.testing.assert_allclose(actual["blurred"], blurred, rtol=1e-5, atol=1e-6)
    y, x = filtered(blurred, SLOPE, SMOOTH), filtered(blurred, SMOOTH, SLOPE)
    np.testing.assert_allclose(actual["edges"], np.hypot(x, y), rtol=1e-4, atol=1e-5)
