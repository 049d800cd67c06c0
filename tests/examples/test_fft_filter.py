"""examples/fft_filter.py against NumPy in float64."""

from __future__ import annotations

import fft_filter as example
import numpy as np
import pytest

pytestmark = pytest.mark.machine_code


def test_fft_filter_example_matches_float64() -> None:
    actual = example.run(3)
    k = np.arange(example.N)
    frequency = np.minimum(k, example.N - k)

    def step(x: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-x / example.SLOPE))

    weight = step(frequency - example.LOWEST) * step(example.HIGHEST - frequency)
    weight *= 1 - np.exp(-0.5 * (frequency - example.HUM) ** 2)
    expected = np.fft.ifft(np.fft.fft(actual["measured"]) * weight).real
    np.testing.assert_allclose(actual["cleaned"], expected, atol=1e-5)
    noise, remaining_noise = (
        np.linalg.norm(actual[name] - actual["packet"]) for name in ("measured", "cleaned")
    )
    assert remaining_noise < 0.3 * noise
