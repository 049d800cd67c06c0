"""examples/attention.py against NumPy in float64."""

from __future__ import annotations

import attention
import numpy as np
import pytest

pytestmark = pytest.mark.machine_code
SIZE = 100  # no multiple of a tile of queries or keys


def test_attention_example_matches_float64() -> None:
    r = attention.run(SIZE)
    known, noisy = r["known"].astype(np.float64), r["noisy"].astype(np.float64)
    scores = attention.SCALE * noisy @ known.transpose(0, 2, 1)
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    expected = p / p.sum(axis=-1, keepdims=True) @ known
    np.testing.assert_allclose(r["found"], expected, atol=0.02)
    assert np.abs(expected - known).mean() < 0.2 * np.abs(noisy - known).mean(), "patterns are remembered"


def test_the_schedule_of_the_attention_example_is_shown_and_proved() -> None:
    r = attention.run(SIZE)
    assert r["proved"]
    lines = [line.strip() for line in r["schedule"].splitlines()]
    assert "fetch: warp 0 (32 threads), registers chosen by the compiler" in lines
    assert "keys: 2 stages of bfloat16 64x64 (16,384 bytes), from fetch to compute" in lines
